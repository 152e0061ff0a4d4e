/** Reads and checks adapter_config.json of a PEFT LoRA. Every field that changes what the adapter computes is either honoured or refused (plain-lora.ts). */
import { EngineInputError } from '../engine-errors.ts';
import type { ByteSource } from '../../files/byte-source.ts';
import { readJsonObject, shown } from '../model/json-file.ts';
import { isRiskyPattern } from '../../tokenizer/pattern-risk.ts';
import { firstNames } from '../../core/first-names.ts';
import { adapterFaultText } from './plain-lora.ts';

export interface AdapterSettings {
  readonly rank: number;
  readonly alpha: number;
  /** Factor of B A x: alpha / rank, or alpha / sqrt(rank) with `use_rslora`. */
  readonly scale: number;
  /** Last parts or whole paths of the modules; null for a pattern or `all-linear`. */
  readonly targets: readonly string[] | null;
  /** The pattern of whole paths; null for a list, for `all-linear`, and for one that only Python can read or that may try without end: then the tensors decide. */
  readonly pattern: RegExp | null;
  /** `exclude_modules`: a pattern of whole paths, or last parts or whole paths; empty if it leaves nothing out. */
  readonly excluded: RegExp | readonly string[];
  /** The field because of which some layers of the targets may lack tensors; null if none may. */
  readonly partialBy: 'layers_to_transform' | 'exclude_modules' | null;
  /** The only layers that it adapts, by `layers_to_transform`; null for all. */
  readonly layers: readonly number[] | null;
}

/** In one alternative of a pattern. Unsloth's have four, and a name has about 50 characters. */
const MOST_REPEATS = 4;
const PARTIAL = ['layers_to_transform', 'exclude_modules'] as const;

/** Rejects with EngineInputError: `not_found`, `unsupported` for a feature that this engine lacks, `invalid` for a broken file. */
export async function readAdapterSettings(source: ByteSource, name: string, { maxRank }: { readonly maxRank: number }): Promise<AdapterSettings> {
  const path = source.pathOf(name);
  const config = await readJsonObject(source, name, {
    remedy: 'an adapter is a PEFT directory with adapter_config.json and adapter_model.safetensors',
  });
  const refuse = (key: string, expected: string, code: 'unsupported' | 'invalid' = 'unsupported'): never => {
    throw new EngineInputError(`${key} in ${path} must be ${expected}, got ${shown(config[key])}`, { code });
  };
  if (config['peft_type'] !== 'LORA') refuse('peft_type', '"LORA"');
  const fault = adapterFaultText(path, config);
  if (fault !== null) throw new EngineInputError(fault, { code: 'unsupported' });
  const { r: rank, lora_alpha: alpha, use_rslora: rsLora = null } = config;
  if (typeof rank !== 'number' || !Number.isSafeInteger(rank) || rank < 1) return refuse('r', 'a whole number from 1', 'invalid');
  if (rank > maxRank) refuse('r', `at most ${maxRank}`);
  if (typeof alpha !== 'number' || !(alpha > 0 && Number.isFinite(alpha))) return refuse('lora_alpha', 'a number above 0', 'invalid');
  if (rsLora !== null && typeof rsLora !== 'boolean') refuse('use_rslora', 'true or false', 'invalid');
  const { layers_to_transform: chosen = null } = config;
  const layers = chosen === null ? [] : [chosen].flat();
  if (!layers.every((layer) => Number.isSafeInteger(layer))) refuse('layers_to_transform', 'whole numbers', 'invalid');
  const given = namesOf(config['target_modules']);
  const targets = given?.length ? given : refuse('target_modules', 'a list of layer names, a pattern or "all-linear"', 'invalid');
  const { exclude_modules: exclude = null } = config;
  const excluded = exclude === null ? [] : (namesOf(exclude) ?? refuse('exclude_modules', 'a list of layer names or a pattern', 'invalid'));
  return {
    rank,
    alpha,
    scale: alpha / (rsLora === true ? Math.sqrt(rank) : rank),
    targets: typeof targets === 'string' ? null : targets,
    pattern: typeof targets === 'string' && targets !== 'all-linear' ? patternOf(targets) : null,
    excluded: typeof excluded === 'string' ? (patternOf(excluded) ?? []) : excluded,
    layers: layers.length === 0 ? null : (layers as number[]),
    partialBy: PARTIAL.find((key) => !['null', '[]'].includes(JSON.stringify(config[key] ?? null))) ?? null,
  };
}

/** Throws EngineInputError for a module with tensors that the settings leave out: PEFT would not read them. `layers_to_transform` is not looked at. */
export function assertTargeted({ targets, pattern, excluded }: AdapterSettings, modules: readonly string[], path: string): void {
  const left = modules.filter((module) => (excluded instanceof RegExp ? excluded.test(module) : excluded.some((name) => isNamed(module, name))));
  if (left.length > 0)
    throw new EngineInputError(`${path} contains tensors that are in exclude_modules: ${firstNames(left)}; save the adapter again`);
  const isTarget = (module: string) => (targets === null ? (pattern?.test(module) ?? true) : targets.some((name) => isNamed(module, name)));
  const extra = modules.filter((module) => !isTarget(module));
  if (extra.length > 0)
    throw new EngineInputError(`${path} contains tensors that are not in target_modules: ${firstNames(extra)}; save the adapter again`);
}

/** PEFT's rule: a target is the whole path, or its end after a dot. */
export function isNamed(path: string, target: string): boolean {
  return path === target || path.endsWith(`.${target}`);
}

function namesOf(value: unknown): string | readonly string[] | null {
  if (typeof value === 'string') return value;
  return Array.isArray(value) && value.every((name) => typeof name === 'string') ? value : null;
}

/** Null for a pattern that only Python can read, or that may take more than a second for the names of a model's modules. */
function patternOf(pattern: string): RegExp | null {
  if (isRiskyPattern(pattern, MOST_REPEATS)) return null;
  try {
    return new RegExp(`^(?:${pattern})$`, 's');
  } catch {
    return null;
  }
}
