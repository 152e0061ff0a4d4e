/** What a run leaves on disk, from its configuration and the shape of the base. */
import type { TrainingConfig } from '../../schemas/training-config.ts';

export interface BaseShape {
  readonly layers: number;
  /** In and out features of each layer that LoRA may stand beside. */
  readonly modules: Readonly<Record<string, readonly [inFeatures: number, outFeatures: number]>>;
}

export interface DiskEstimate {
  readonly adapterBytes: number;
  readonly checkpointBytes: number;
  readonly rolloutBytes: number;
  readonly totalBytes: number;
}

const FLOAT32_BYTES = 4;
/** A recorded token: its id, its log-prob, its piece of the text, as JSON. */
const BYTES_PER_TOKEN = 40;

/** Of a Llama-like `config.json`; null where the numbers that it takes are not there. */
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

/** Trained numbers: A is [rank, in], B is [out, rank]. */
export function adapterParameters({ layers, modules }: BaseShape, rank: number, targets: readonly string[]): number {
  const perLayer = targets
    .map((target) => modules[target] ?? [0, 0])
    .reduce((sum, [inFeatures, outFeatures]) => sum + rank * (inFeatures + outFeatures), 0);
  return layers * perLayer;
}

/** `contextTokens`: the longest that a rollout can get. */
export function estimateDisk(config: TrainingConfig, shape: BaseShape, contextTokens: number): DiskEstimate {
  const { lora, checkpoint, rollouts, steps } = config;
  const oneAdapter = adapterParameters(shape, lora.rank, lora.targets) * FLOAT32_BYTES;
  const every = Math.min(checkpoint.every, steps);
  const checkpoints = checkpoint.keep === 0 ? Math.ceil(steps / every) : checkpoint.keep;
  // While one is written, the one that it replaces is still there.
  const checkpointBytes = (checkpoints + 1) * 3 * oneAdapter;
  const adapterBytes = (rollouts.maxStaleness + 2) * oneAdapter;
  const keptSteps = checkpoint.keepRollouts || checkpoint.keep === 0 ? steps : Math.min(steps, (checkpoint.keep + 1) * every);
  const rolloutBytes = keptSteps * rollouts.examplesPerStep * rollouts.rolloutsPerExample * contextTokens * BYTES_PER_TOKEN;
  return { adapterBytes, checkpointBytes, rolloutBytes, totalBytes: adapterBytes + checkpointBytes + rolloutBytes };
}
