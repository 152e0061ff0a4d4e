/**
 * Finds the faults of an adapter that a server would not: vLLM answers 200 to NaN and to wrong shapes, and ignores whole fields of
 * adapter_config.json. Nothing is sent before these checks pass.
 */
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { readRegularBytes } from '../../files/regular-file.ts';
import { CancelledError, PublishError, VfError } from '../../core/errors.ts';
import { readJson } from '../../core/read-json.ts';
import { adapterFaultText } from '../../engine/adapters/plain-lora.ts';
import type { AdapterDescription, AdapterFiles, AdapterManifest } from '../gradient-backend.ts';
import { openSafetensors } from '../../files/open-safetensors.ts';
import { SafetensorsError, type TensorEntry } from '../../files/safetensors.ts';
import { systemText } from '../../files/system-text.ts';
import { isObject } from '../../schemas/is-object.ts';
import { scanTensors } from './tensor-scan.ts';
import { firstNames } from '../../core/first-names.ts';
import { countText } from '../../core/count-text.ts';

const CONFIG = 'adapter_config.json';
const WEIGHTS = 'adapter_model.safetensors';
const MAX_CONFIG_BYTES = 2 ** 20;

/** Fields that are plain LoRA, but that this trainer's adapters never have: it scales by alpha / rank, and adapts every layer. */
const ABSENT: Readonly<Record<string, readonly unknown[]>> = { use_rslora: [false], layers_to_transform: [[]] };

/** Rejects with a PublishError that says what is wrong with the directory, or with CancelledError. */
export async function checkAdapter(manifest: AdapterManifest, adapter: AdapterDescription, signal: AbortSignal): Promise<void> {
  if (manifest.kind === 'remote')
    throw new PublishError(`The adapter ${manifest.reference} stays at a training service, so that no other server can load it. Sample there too`);
  try {
    signal.throwIfAborted();
    await checkConfig(manifest, adapter);
    await checkWeights(manifest, adapter, signal);
    await checkOtherFiles(manifest);
  } catch (error) {
    if (signal.aborted) throw new CancelledError('Stopped while checking an adapter', { cause: signal.reason });
    if (error instanceof VfError) throw error;
    throw new PublishError(fileFailure(manifest.directory, error), { cause: error });
  }
}

/** Shapes of the tensors that an adapter of this description has, by name. */
function adapterShapes({ rank, modules }: AdapterDescription): Map<string, readonly [number, number]> {
  return new Map(
    modules.flatMap(({ path, inFeatures, outFeatures }) => [
      [`base_model.model.${path}.lora_A.weight`, [rank, inFeatures]] as const,
      [`base_model.model.${path}.lora_B.weight`, [outFeatures, rank]] as const,
    ]),
  );
}

async function checkConfig({ directory, rank, alpha, files }: AdapterFiles, adapter: AdapterDescription): Promise<void> {
  const path = join(directory, CONFIG);
  if (rank !== adapter.rank || alpha !== adapter.alpha) {
    throw new PublishError(
      `The adapter at ${directory} has rank ${rank} and alpha ${alpha}, but the run has rank ${adapter.rank} and alpha ${adapter.alpha}`,
    );
  }
  const { size } = await stat(path);
  if (size > MAX_CONFIG_BYTES) throw new PublishError(`${path} has ${countText(size)} bytes; the limit is ${countText(MAX_CONFIG_BYTES)}`);
  const bytes = await readRegularBytes(path);
  checkFile(directory, files, CONFIG, bytes.length, createHash('sha256').update(bytes).digest('hex'));
  let config: unknown;
  try {
    config = readJson(bytes.toString('utf8'));
  } catch (cause) {
    throw new PublishError(`${path} is not valid JSON. Save the adapter again`, { cause });
  }
  if (!isObject(config)) throw new PublishError(`${path} does not contain a JSON object. Save the adapter again`);
  checkFields(path, config, adapter);
}

function checkFields(path: string, config: Readonly<Record<string, unknown>>, { rank, alpha, modules }: AdapterDescription): void {
  const refuse = (field: string, expected: string) => {
    throw new PublishError(`${field} in ${path} must be ${expected}, got ${JSON.stringify(config[field])?.slice(0, 200)}`);
  };
  if (config['peft_type'] !== 'LORA') refuse('peft_type', '"LORA"');
  if (config['r'] !== rank) refuse('r', String(rank));
  if (config['lora_alpha'] !== alpha) refuse('lora_alpha', String(alpha));
  const targets = config['target_modules'];
  if (!Array.isArray(targets)) return refuse('target_modules', 'a list of layer names');
  const missing = modules.find((module) => !targets.some((name) => module.path === name || module.path.endsWith(`.${name}`)));
  if (missing !== undefined) refuse('target_modules', `a list that names ${missing.path}`);
  const fault = adapterFaultText(path, config);
  if (fault !== null) throw new PublishError(fault);
  for (const [field, neutral] of Object.entries(ABSENT)) {
    const value = config[field] ?? null;
    if (value === null || neutral.some((other) => JSON.stringify(other) === JSON.stringify(value))) continue;
    refuse(field, `${JSON.stringify(neutral[0])} or absent (a server applies the same rank and alpha / rank to every layer)`);
  }
}

async function checkWeights({ directory, files }: AdapterFiles, adapter: AdapterDescription, signal: AbortSignal): Promise<void> {
  const { file, header } = await openSafetensors(join(directory, WEIGHTS));
  try {
    checkShapes(directory, header.tensors, adapter);
    const { nonFinite, sha256, bytesRead } = await scanTensors(file, header, signal);
    if (nonFinite !== null) {
      throw new PublishError(
        `${join(directory, WEIGHTS)} contains NaN or an infinity in ${nonFinite.name} at index ${nonFinite.index}. Resume from an earlier checkpoint`,
      );
    }
    checkFile(directory, files, WEIGHTS, bytesRead, sha256);
  } finally {
    await file.close();
  }
}

function checkShapes(directory: string, tensors: readonly TensorEntry[], adapter: AdapterDescription): void {
  const expected = adapterShapes(adapter);
  const found = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const missing = [...expected.keys()].filter((name) => !found.has(name));
  const extra = [...found.keys()].filter((name) => !expected.has(name));
  const where = `at ${directory}`;
  if (missing.length > 0)
    throw new PublishError(
      `The adapter ${where} lacks ${missing.length} of ${expected.size} tensors: ${firstNames(missing)}. Save the adapter again`,
    );
  if (extra.length > 0)
    throw new PublishError(`The adapter ${where} has unknown tensors beyond its ${expected.size}: ${firstNames(extra)}. Save the adapter again`);
  for (const [name, shape] of expected) {
    const { shape: got } = found.get(name)!;
    if (got.length === 2 && got[0] === shape[0] && got[1] === shape[1]) continue;
    throw new PublishError(
      `${name} ${where} has shape [${got.join(', ')}] instead of [${shape.join(', ')}]. Check that the adapter was trained on this base and rank`,
    );
  }
}

/** Every other file of the manifest must exist with the listed size. */
async function checkOtherFiles({ directory, files }: AdapterFiles): Promise<void> {
  for (const { name, bytes } of files) {
    if (name === CONFIG || name === WEIGHTS) continue;
    const { size } = await stat(join(directory, name));
    if (size !== bytes) throw changed(directory, name, `${countText(bytes)} bytes`, countText(size));
  }
}

function checkFile(directory: string, files: AdapterFiles['files'], name: string, bytes: number, sha256: string): void {
  const listed = files.find((file) => file.name === name);
  if (listed === undefined)
    throw new PublishError(`The manifest of ${directory} does not list ${name}; it lists ${files.map((file) => file.name).join(', ') || 'nothing'}`);
  if (listed.bytes !== bytes) throw changed(directory, name, `${countText(listed.bytes)} bytes`, countText(bytes));
  if (listed.sha256 !== sha256) throw changed(directory, name, `sha256 ${listed.sha256}`, sha256);
}

function changed(directory: string, name: string, expected: string, got: string): PublishError {
  return new PublishError(`${join(directory, name)} changed after it was saved: it had ${expected} and now has ${got}`);
}

function fileFailure(directory: string, error: unknown): string {
  if (error instanceof SafetensorsError)
    return `${join(directory, WEIGHTS)} is not a valid safetensors file: ${error.message}. Save the adapter again`;
  const { code, path = 'a file' } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return `The adapter at ${directory} lacks ${basename(path)}. Check that nothing deleted the directory`;
  return `Cannot read the adapter at ${directory}: ${systemText(error)}`;
}
