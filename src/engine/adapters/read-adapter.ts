/**
 * Reads a LoRA adapter from a PEFT directory and checks it against the model: whatever a permissive server would serve wrongly gives a one-line error. Does not touch
 * the engine's memory.
 */
import type { ByteFile, ByteSource } from '../../files/byte-source.ts';
import { DTYPE_BYTES, readSafetensorsHeader, readTensorBytes, SafetensorsError, type TensorEntry } from '../../files/safetensors.ts';
import { EngineInputError } from '../engine-errors.ts';
import { fileError } from '../model/json-file.ts';
import { MAX_ADAPTER_RANK, type ModelConfig } from '../model/model-types.ts';
import { toFloat32 } from '../../files/tensor-numbers.ts';
import type { AdapterTensors } from '../training/trainer-types.ts';
import { type AdaptedModule, adaptedModules } from './adapted-modules.ts';
import { type AdapterSettings, assertTargeted, isNamed, readAdapterSettings } from './adapter-settings.ts';
import { firstNames } from '../../core/first-names.ts';
import { changedAdapterText } from '../../core/changed-adapter.ts';

export const ADAPTER_CONFIG = 'adapter_config.json';
export const ADAPTER_WEIGHTS = 'adapter_model.safetensors';
/** Precedes a module's path in PEFT's files. */
const PREFIX = 'base_model.model.';

export interface ReadAdapter {
  readonly directory: string;
  readonly rank: number;
  readonly alpha: number;
  /** Factor of B A x. */
  readonly scale: number;
  readonly tensors: readonly AdapterTensors[];
}

/** The name of a module's matrix in adapter_model.safetensors. */
export function adapterTensorName(path: string, side: 'A' | 'B'): string {
  return `${PREFIX}${path}.lora_${side}.weight`;
}

/**
 * Rejects with EngineInputError: `not_found` if the directory or one of the two files is missing; `unsupported` for another kind of adapter, a rank above `maxRank`, or a
 * module that this model lacks; `invalid` for wrong shapes, half a pair, missing layers, a truncated file or a number that is not finite.
 *
 * @param maxRank default: 512
 */
export async function readAdapter(
  source: ByteSource,
  config: ModelConfig,
  { maxRank = MAX_ADAPTER_RANK }: { readonly maxRank?: number } = {},
): Promise<ReadAdapter> {
  await checkFolder(source);
  const settings = await readAdapterSettings(source, ADAPTER_CONFIG, { maxRank });
  return withWeights(source, async (path, file, stored) => {
    const tensors: AdapterTensors[] = [];
    for (const { module, a, b } of pairsOf(path, stored, { config, settings })) {
      const { path: modulePath, inputs, outputs } = module;
      tensors.push({ path: modulePath, inputs, outputs, a: await read(path, file, a, 1), b: await read(path, file, b, settings.scale) });
    }
    return { directory: source.path, rank: settings.rank, alpha: settings.alpha, scale: settings.scale, tensors };
  });
}

/** The paths of the modules that an adapter has tensors of, in the order of its file. Rejects with EngineInputError, also for a tensor that does not fit. */
export function readAdaptedPaths(source: ByteSource, fit: LayerFit | null = null): Promise<readonly string[]> {
  return withWeights(source, async (path, file, stored) => {
    if (fit !== null) await checkFit(path, file, stored, fit);
    assertPaired(path, stored);
    return [...new Set(stored.map(({ name }) => moduleOf(name)))];
  });
}

function moduleOf(tensorName: string): string {
  return tensorName.replace(PREFIX, '').replace(/\.lora_[^.]+(\.weight)?$/, '');
}

async function checkFit(path: string, file: ByteFile, stored: readonly TensorEntry[], { rank, scale, sizesOf }: LayerFit): Promise<void> {
  const unknown = stored.filter(({ name }) => sizesOf(moduleOf(name))?.length === 0);
  if (unknown.length > 0)
    throw unknownTensors(
      path,
      unknown.map(({ name }) => name),
    );
  for (const tensor of stored) {
    const isA = /\.lora_A\b/.test(tensor.name);
    const wanted = (sizesOf(moduleOf(tensor.name)) ?? []).map(([inputs, outputs]): Shape => (isA ? [rank, inputs] : [outputs, rank]));
    if (wanted.length > 0 && !wanted.some((shape) => hasShape(tensor, shape))) checkShape(path, tensor, wanted[0]!);
  }
  for (const tensor of stored) await read(path, file, tensor, /\.lora_B\b/.test(tensor.name) ? scale : 1);
}

type Shape = readonly [number, number];

/** What the tensors of an adapter must fit. */
export interface LayerFit {
  readonly rank: number;
  /** Factor of B A x. */
  readonly scale: number;
  /** `[inputs, outputs]` of what a path may be; empty if the base has no such layer, null if that is unknown. */
  readonly sizesOf: (path: string) => readonly Shape[] | null;
}

async function withWeights<T>(source: ByteSource, use: (path: string, file: ByteFile, stored: readonly TensorEntry[]) => Promise<T>): Promise<T> {
  const path = source.pathOf(ADAPTER_WEIGHTS);
  const asInput = (cause: unknown) => {
    throw unreadable(path, cause);
  };
  const file = await source.open(ADAPTER_WEIGHTS).catch(asInput);
  try {
    const { tensors } = await readSafetensorsHeader(file).catch(asInput);
    return await use(path, file, tensors);
  } finally {
    await file.close();
  }
}

/** Rejects with EngineInputError unless the source is a folder, whose files are as a training wrote them if it has a record of them. */
export async function checkFolder(source: ByteSource): Promise<void> {
  const { path } = source;
  const remedy = 'pass the path of a PEFT directory';
  const isFolder = await source.isFolder().catch((cause: unknown) => {
    const { code } = cause as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw fileError(path, cause, remedy);
    throw new EngineInputError(`There is no adapter directory ${path}; ${remedy}`, { code: 'not_found', cause });
  });
  if (!isFolder) throw new EngineInputError(`${path} is a file, not an adapter directory; ${remedy}`);
  const fault = (await source.adapterFault?.()) ?? null;
  if (fault !== null) throw new EngineInputError(changedAdapterText(path, fault));
}

function unreadable(path: string, cause: unknown): EngineInputError {
  const remedy = 'save the adapter again, as safetensors';
  if (cause instanceof SafetensorsError)
    return new EngineInputError(`${path} is not a valid safetensors file: ${cause.message}; ${remedy}`, { cause });
  return fileError(path, cause, remedy);
}

interface StoredPair {
  readonly module: AdaptedModule;
  readonly a: TensorEntry;
  readonly b: TensorEntry;
}

/** The tensors of each module, in the model's order. Throws EngineInputError if one is unknown, unpaired, missing or has a wrong shape. */
function pairsOf(
  path: string,
  stored: readonly TensorEntry[],
  { config, settings }: { readonly config: ModelConfig; readonly settings: AdapterSettings },
): readonly StoredPair[] {
  const modules = adaptedModules(config);
  const found = new Map(stored.map((tensor) => [tensor.name, tensor]));
  checkNames(path, { modules, names: [...found.keys()], settings });
  assertPaired(path, stored);
  return modules.flatMap((module) => {
    const a = found.get(adapterTensorName(module.path, 'A'));
    const b = found.get(adapterTensorName(module.path, 'B'));
    if (a === undefined || b === undefined) return [];
    checkShape(path, a, [settings.rank, module.inputs]);
    checkShape(path, b, [module.outputs, settings.rank]);
    return [{ module, a, b }];
  });
}

function checkNames(
  path: string,
  { modules, names, settings }: { readonly modules: readonly AdaptedModule[]; readonly names: readonly string[]; readonly settings: AdapterSettings },
): void {
  if (names.length === 0) throw new EngineInputError(`${path} contains no tensors; save the adapter again`);
  const pathsOf = (list: readonly AdaptedModule[]) => new Set(list.map((module) => module.path));
  const known = new Set([...pathsOf(modules)].flatMap((one) => [adapterTensorName(one, 'A'), adapterTensorName(one, 'B')]));
  const unknown = names.filter((name) => !known.has(name));
  if (unknown.length > 0) throw unknownTensors(path, unknown);
  const { targets, pattern, partialBy, layers } = settings;
  const present = new Set(names.map((name) => name.slice(PREFIX.length, name.lastIndexOf('.lora_'))));
  const strange = (targets ?? []).filter((target) => !modules.some((module) => isNamed(module.path, target)));
  if (strange.length > 0) {
    const message = `target_modules next to ${path} names layers that this model does not have: ${firstNames(strange)}; check that the adapter belongs to this model`;
    throw new EngineInputError(message, { code: 'unsupported' });
  }
  assertTargeted(settings, [...present], path);
  if (targets === null && pattern === null) return;
  const isTargeted = (module: AdaptedModule) => {
    if (targets === null) return pattern!.test(module.path);
    return targets.some((target) => isNamed(module.path, target)) && (layers?.includes(module.layer) ?? true);
  };
  const targeted = pathsOf(modules.filter(isTargeted));
  const extra = [...present].filter((one) => !targeted.has(one));
  const missing = partialBy !== null ? [] : [...targeted].filter((one) => !present.has(one));
  if (extra.length > 0)
    throw new EngineInputError(`${path} contains tensors that are not in layers_to_transform: ${firstNames(extra)}; save the adapter again`);
  assertNoneMissing(path, missing);
}

/** Throws EngineInputError if modules of the targets have no tensors. */
export function assertNoneMissing(path: string, missing: readonly string[]): void {
  if (missing.length > 0) throw new EngineInputError(`${path} lacks tensors for ${firstNames(missing)} of target_modules; save the adapter again`);
}

function assertPaired(path: string, stored: readonly TensorEntry[]): void {
  const names = new Set(stored.map(({ name }) => name));
  for (const name of names) {
    const [, side] = /\.lora_([AB])\.weight$/.exec(name) ?? [];
    if (side === undefined || names.has(name.replace(/[AB](?=\.weight$)/, side === 'A' ? 'B' : 'A'))) continue;
    throw new EngineInputError(`${path} has only lora_${side} of ${moduleOf(name)}, not the pair; save the adapter again`);
  }
}

function unknownTensors(path: string, names: readonly string[]): EngineInputError {
  const message = `${path} contains tensors that are not linear layers of this model: ${firstNames(names)}; check that the adapter belongs to this model`;
  return new EngineInputError(message, { code: 'unsupported' });
}

function hasShape({ shape }: TensorEntry, expected: Shape): boolean {
  return shape.length === 2 && shape[0] === expected[0] && shape[1] === expected[1];
}

function checkShape(path: string, tensor: TensorEntry, expected: Shape): void {
  if (hasShape(tensor, expected)) return;
  const { name, shape } = tensor;
  throw new EngineInputError(
    `${name} in ${path} must have shape [${expected.join(', ')}], got [${shape.join(', ')}]; check that the adapter belongs to this model and rank`,
  );
}

/** Reads a tensor's numbers, which must be finite, also after multiplication by `scale`. */
async function read(path: string, file: ByteFile, { name, dtype, shape, start, end }: TensorEntry, scale: number): Promise<Float32Array> {
  const bytes = new Uint8Array(end - start);
  await readTensorBytes(file, bytes, start).catch((cause: unknown) => {
    throw unreadable(path, cause);
  });
  const numbers = new Float32Array(bytes.length / DTYPE_BYTES[dtype]);
  toFloat32(bytes, dtype, numbers, numbers.length);
  const at = numbers.findIndex((number) => !Number.isFinite(Math.fround(number * scale)));
  if (at >= 0) {
    const place = `[${Math.floor(at / shape[1]!)}, ${at % shape[1]!}]`;
    throw new EngineInputError(`${name} in ${path} contains a number that is not finite: ${numbers[at]} at ${place}; use an earlier adapter`);
  }
  return numbers;
}
