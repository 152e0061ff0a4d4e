/** Estimates a run's disk usage from its configuration and the shape of the base. */
import type { TrainingConfig } from '../schemas/training-config.ts';
import { totalSteps } from '../trainer/config/training-schedule.ts';

export interface BaseShape {
  readonly layers: number;
  /** In and out features of each layer that LoRA can adapt. */
  readonly modules: Readonly<Record<string, readonly [inFeatures: number, outFeatures: number]>>;
}

export interface DiskEstimate {
  readonly adapterBytes: number;
  readonly checkpointBytes: number;
  readonly rolloutBytes: number;
  readonly totalBytes: number;
}

const FLOAT32_BYTES = 4;
/** Size of a recorded token in JSON: id, log-prob and text. */
const BYTES_PER_TOKEN = 40;
/** The same compressed. */
const PACKED_BYTES_PER_TOKEN = 10;

/** Reads a Llama-like `config.json`; null if it lacks the necessary numbers. */
export function baseShape(config: Readonly<Record<string, unknown>>): BaseShape | null {
  const number = (name: string) => (typeof config[name] === 'number' ? config[name] : null);
  const [hidden, inner, layers, heads] = ['hidden_size', 'intermediate_size', 'num_hidden_layers', 'num_attention_heads'].map(number);
  if (!hidden || !inner || !layers || !heads) return null;
  const headDim = number('head_dim') ?? hidden / heads;
  const keyHeads = number('num_key_value_heads') ?? heads;
  const [queries, keys] = [heads * headDim, keyHeads * headDim];
  return {
    layers,
    modules: {
      q_proj: [hidden, queries],
      k_proj: [hidden, keys],
      v_proj: [hidden, keys],
      o_proj: [queries, hidden],
      gate_proj: [hidden, inner],
      up_proj: [hidden, inner],
      down_proj: [inner, hidden],
    },
  };
}

/** Number of trained parameters: A is [rank, in], B is [out, rank]. */
export function adapterParameters({ layers, modules }: BaseShape, rank: number, targets: readonly string[]): number {
  const perLayer = targets
    .map((target) => modules[target] ?? [0, 0])
    .reduce((sum, [inFeatures, outFeatures]) => sum + rank * (inFeatures + outFeatures), 0);
  return layers * perLayer;
}

/** `contextTokens`: tokens of the longest possible rollout. */
export function estimateDisk(config: TrainingConfig, shape: BaseShape, contextTokens: number): DiskEstimate {
  const { lora, checkpoint, rollouts, steps: rolloutSteps } = config;
  const steps = Math.max(1, totalSteps(config));
  const oneAdapter = adapterParameters(shape, lora.rank, lora.targets) * FLOAT32_BYTES;
  const every = Math.min(checkpoint.every, steps);
  const checkpoints = checkpoint.keep === 0 ? Math.ceil(steps / every) : checkpoint.keep;
  // A checkpoint exists beside the one that it replaces while it is written.
  const checkpointBytes = (checkpoints + 1) * 3 * oneAdapter;
  const adapterBytes = (rollouts.maxStaleness + 2) * oneAdapter;
  const neededSteps = checkpoint.keep === 0 ? rolloutSteps : Math.min(rolloutSteps, (checkpoint.keep + 1) * every);
  const stepTokens = rollouts.examplesPerStep * rollouts.rolloutsPerExample * contextTokens;
  const neededBytes = neededSteps * stepTokens * BYTES_PER_TOKEN;
  const archived = checkpoint.keepRollouts ? (rolloutSteps - neededSteps) * stepTokens * PACKED_BYTES_PER_TOKEN : 0;
  const rolloutBytes = Math.max(neededBytes, Math.min(neededBytes + archived, checkpoint.maxRolloutsGb * 1e9));
  return { adapterBytes, checkpointBytes, rolloutBytes, totalBytes: adapterBytes + checkpointBytes + rolloutBytes };
}
