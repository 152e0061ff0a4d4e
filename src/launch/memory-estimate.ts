/**
 * Computes the memory of a training run from a model's shape: the worker's (src/trainer/gradients/torch) at its peak, and vLLM's. It counts tensors instead of
 * measuring them. test/launch/memory-of-worker.long.test.ts runs the worker's own modules on tensors without data and compares their peak with this. Allocators
 * round and fragment, so leave a tenth of a card free.
 */
import { towerPassBytes } from './vision-shape.ts';
import { adapterParameterCount, keyValueWidth, layerParameterCount, type ModelShape, parameterCount, queryWidth } from './model-shape.ts';

export interface TrainerSettings {
  readonly rank: number;
  readonly targets: readonly string[];
  /** Tokens per micro-batch. */
  readonly maxTokens: number;
  readonly checkpointing: boolean;
  /** Bytes per weight of the frozen base: 2 (bfloat16) or 4. */
  readonly bytesPerWeight: number;
  /** On a CPU, norms are not fused and chunks of logits are smaller. @default 'cuda' */
  readonly device?: 'cuda' | 'cpu';
  /** Number of workers that each hold a part of every layer (`backend.sharding`). @default 1 */
  readonly shards?: number;
}

/** Bytes of each part at the peak of a step. */
export interface TrainerMemory {
  readonly weights: number;
  readonly adapter: number;
  /** Kept from forward to backward. */
  readonly activations: number;
  /** Working memory: of the LM head, or of the backward pass of one layer, whichever is larger. They never coexist. */
  readonly working: number;
  readonly context: number;
  readonly total: number;
}

export const GIB = 2 ** 30;
/** CUDA context, kernels and the libraries' own workspaces: 0.5 to 1.5 GiB in practice. */
const CONTEXT_BYTES = 1.5 * GIB;
/** The float32 logits of a chunk (`rows_of_chunk` in head.py), and the number of such tensors at once. */
const CHUNK_BYTES = { cuda: GIB, cpu: GIB / 4 } as const;
const CHUNKS = 2;
/** Parameter, gradient and two Adam moments in float32, plus a copy in the base's type for the products. */
const BYTES_PER_ADAPTER_PARAMETER = 4 + 4 + 8 + 2;
/** Of the copy that a step can return to, in the memory of the host: parameter and two Adam moments in float32. */
const HELD_BYTES_PER_ADAPTER_PARAMETER = 4 + 8;
/** In the backward pass of a layer: gradients and recomputed values as wide as the MLP, and as wide as the hidden state. */
const MLP_WIDE = 2;
const HIDDEN_WIDE = 2;
/** The last layer's output and the hidden states that predict targets. */
const LAST_STATES = 2;
/** Whole layers that a worker holds if the layers are divided: one computes while the next is gathered. */
const GATHERED_LAYERS = 2;

/** A picture in the worker's tower, which takes one at a time: twice what visual-rag shows. */
const PICTURE_TOKENS = 1024;
/** At its start vLLM encodes the largest picture that the model takes, and keeps the output. This is the default limit of Qwen's image processors. */
const LARGEST_PICTURE_TOKENS = 16_384;

/**
 * Bytes that autograd keeps per token and decoder layer. With H, Q, K, F the widths of hidden state, queries, keys and MLP these are: input and output of
 * both norms (4 H), queries, keys, values and output of attention (2 Q + 2 K), queries and keys before Qwen3's norms (Q + K), gate, up and their product
 * (3 F), the low-rank output of each adapted layer, and in float32 the statistics of the norms and of attention's softmax.
 */
function activationBytesPerTokenAndLayer(shape: ModelShape, settings: Omit<TrainerSettings, 'maxTokens'>): number {
  const { rank, targets, bytesPerWeight, device = 'cuda' } = settings;
  const { hidden, heads, keyValueHeads, feedForward, hasQueryKeyNorm } = shape;
  const projections = queryWidth(shape) + keyValueWidth(shape);
  const attention = (hasQueryKeyNorm ? 3 : 2) * projections;
  // The CPU's norms keep a normalised copy of their input.
  const normalised = device === 'cuda' ? 0 : 2 * hidden + (hasQueryKeyNorm ? projections : 0);
  const statistics = 4 * (2 + heads + (hasQueryKeyNorm ? heads + keyValueHeads : 0));
  return bytesPerWeight * (4 * hidden + attention + 3 * feedForward + targets.length * rank + normalised) + statistics;
}

export function trainerMemory(shape: ModelShape, settings: TrainerSettings): TrainerMemory {
  const { maxTokens, bytesPerWeight, checkpointing, device = 'cuda' } = settings;
  const { layers, hidden, feedForward, vocabulary } = shape;
  const layer = activationBytesPerTokenAndLayer(shape, settings);
  // Counted as if every token were one of a picture: the tower's outputs are kept in addition to the graph.
  const seen = shape.tower === undefined ? 0 : bytesPerWeight * hidden * (1 + shape.tower.furtherOutputs);
  const kept = (checkpointing ? layers * bytesPerWeight * hidden : layers * layer) + LAST_STATES * bytesPerWeight * hidden + seen;
  // With checkpointing, the backward pass of a layer first computes its activations again.
  const backward = bytesPerWeight * (MLP_WIDE * feedForward + HIDDEN_WIDE * hidden) + (checkpointing ? layer : 0);
  const head = CHUNKS * Math.min(CHUNK_BYTES[device], 4 * vocabulary * maxTokens);
  // Pictures go through the tower before the language model runs.
  const tower = shape.tower === undefined ? 0 : towerPassBytes(shape.tower, PICTURE_TOKENS, bytesPerWeight);
  const parts = {
    weights: weightsPerWorker(shape, settings.shards ?? 1) * bytesPerWeight,
    adapter: adapterParameterCount(shape, settings.rank, settings.targets) * BYTES_PER_ADAPTER_PARAMETER,
    activations: maxTokens * kept,
    working: Math.max(head, maxTokens * backward, tower),
    context: device === 'cuda' ? CONTEXT_BYTES : 0,
  };
  return { ...parts, total: Object.values(parts).reduce((sum, bytes) => sum + bytes, 0) };
}

/**
 * Memory of the host that the first worker keeps for the state from before a step, to which a step with weights that are not finite is taken back. The next step makes its copy
 * before the last one is freed.
 */
export function heldBytes(shape: ModelShape, { rank, targets }: Pick<TrainerSettings, 'rank' | 'targets'>): number {
  return 2 * adapterParameterCount(shape, rank, targets) * HELD_BYTES_PER_ADAPTER_PARAMETER;
}

/** Embedding, head, last norm and the vision tower are whole on every worker. */
function weightsPerWorker(shape: ModelShape, shards: number): number {
  if (shards === 1) return parameterCount(shape);
  const layer = layerParameterCount(shape);
  return parameterCount(shape) - shape.layers * layer + Math.ceil((shape.layers * layer) / shards) + GATHERED_LAYERS * layer;
}

/** Memory that the worker keeps between steps: weights, adapter and context. */
export function residentBytes({ weights, adapter, context }: TrainerMemory): number {
  return weights + adapter + context;
}

/** The largest micro-batch up to `limit`, in steps of 1,024 tokens and `limit` itself, that fits `bytes`; 0 if none fits. */
export function largestMicroBatch(shape: ModelShape, settings: Omit<TrainerSettings, 'maxTokens'>, bytes: number, limit = 512 * 1024): number {
  const fits = (maxTokens: number) => trainerMemory(shape, { ...settings, maxTokens }).total <= bytes;
  if (fits(limit)) return limit;
  let blocks = 0;
  for (let step = 256; step >= 1; step /= 2) while ((blocks + step) * 1024 < limit && fits((blocks + step) * 1024)) blocks += step;
  return blocks * 1024;
}

/** vLLM keeps keys and values of every layer in half precision. */
export function cacheBytesPerToken(shape: ModelShape): number {
  return 2 * 2 * shape.layers * keyValueWidth(shape);
}

/**
 * vLLM's memory on each of its cards without its cache: its part of the weights, plus 3 GiB for a prefill's activations, CUDA graphs, adapters and context; for a
 * vision model also the tower's work on the largest picture and its kept output. vLLM logs the real figure at its start.
 */
export function serverFixedBytes(shape: ModelShape, cards = 1): number {
  const { tower, hidden } = shape;
  const kept = tower === undefined ? 0 : 2 * LARGEST_PICTURE_TOKENS * hidden * (1 + tower.furtherOutputs);
  const pass = tower === undefined ? 0 : towerPassBytes(tower, LARGEST_PICTURE_TOKENS, 2) / cards;
  return (2 * parameterCount(shape)) / cards + 3 * GIB + kept + pass;
}

/** Number of whole rollouts of `contextTokens` whose cache fits in addition to the weights in `bytes` on each of `cards` cards. */
export function concurrentRollouts(shape: ModelShape, bytes: number, contextTokens: number, cards = 1): number {
  const cache = (bytes - serverFixedBytes(shape, cards)) * cards;
  return Math.max(0, Math.floor(cache / (cacheBytesPerToken(shape) * contextTokens)));
}
