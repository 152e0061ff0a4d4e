/** Reads and checks adapter_config.json of a PEFT LoRA. Every field that changes what the adapter computes is either honoured or refused. */
import { EngineInputError } from '../engine-errors.ts';
import type { ByteSource } from '../../files/byte-source.ts';
import { type JsonObject, readJsonObject, shown } from '../model/json-file.ts';

export interface AdapterSettings {
  readonly rank: number;
  readonly alpha: number;
  /** Factor of B A x: alpha / rank, or alpha / sqrt(rank) with `use_rslora`. */
  readonly scale: number;
  /** Last parts or whole paths of the modules; null for a pattern or `all-linear`, in which case the tensors decide. */
  readonly targets: readonly string[] | null;
  /** True if some layers of the targets may lack tensors. */
  readonly isPartial: boolean;
}

/** Fields that must be absent, null, or one of these values, which have no effect. */
const NEUTRAL: Readonly<Record<string, readonly unknown[]>> = {
  bias: ['none'],
  lora_bias: [false],
  use_dora: [false],
  use_qalora: [false],
  use_bdlora: [false],
  fan_in_fan_out: [false],
  modules_to_save: [[]],
  rank_pattern: [{}],
  alpha_pattern: [{}],
  target_parameters: [[]],
  trainable_token_indices: [[], {}],
  layer_replication: [[]],
  alora_invocation_tokens: [[]],
  megatron_config: [{}],
  // PEFT's other values change the base's own weights when the adapter is loaded.
  init_lora_weights: [true, false, 'gaussian', 'eva', 'orthogonal'],
};

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
  for (const [key, neutral] of Object.entries(NEUTRAL)) {
    const value = config[key] ?? null;
    if (value !== null && !neutral.some((other) => JSON.stringify(other) === JSON.stringify(value))) {
      refuse(key, `${JSON.stringify(neutral[0])} or absent: only plain LoRA with one rank and one scale is supported`);
    }
  }
  const { r: rank, lora_alpha: alpha, use_rslora: rsLora = null } = config;
  if (typeof rank !== 'number' || !Number.isSafeInteger(rank) || rank < 1) return refuse('r', 'a whole number from 1', 'invalid');
  if (rank > maxRank) refuse('r', `at most ${maxRank}`);
  if (typeof alpha !== 'number' || !(alpha > 0 && Number.isFinite(alpha))) return refuse('lora_alpha', 'a number above 0', 'invalid');
  if (rsLora !== null && typeof rsLora !== 'boolean') refuse('use_rslora', 'true or false', 'invalid');
  const targets = targetsOf(config) ?? refuse('target_modules', 'a list of layer names, a pattern or "all-linear"', 'invalid');
  return {
    rank,
    alpha,
    scale: alpha / (rsLora === true ? Math.sqrt(rank) : rank),
    targets: typeof targets === 'string' ? null : targets,
    isPartial: ['layers_to_transform', 'exclude_modules'].some((key) => !['null', '[]'].includes(JSON.stringify(config[key] ?? null))),
  };
}

function targetsOf({ target_modules: targets }: JsonObject): string | readonly string[] | null {
  if (typeof targets === 'string') return targets;
  return Array.isArray(targets) && targets.length > 0 && targets.every((name) => typeof name === 'string') ? targets : null;
}
