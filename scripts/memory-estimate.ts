/**
 * Computes the GPU memory of a training run from a model's shape: what the worker holds (src/trainer/gradients/torch), and what vLLM needs besides. It counts
 * the tensors that autograd keeps for a Qwen-like decoder instead of measuring. Allocators round and fragment, so leave a tenth free.
 */

/** The parts of a config.json that determine memory. */
export interface ModelShape {
  readonly name: string;
  readonly layers: number;
  readonly hidden: number;
  /** Width of the MLP. */
  readonly feedForward: number;
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly headDim: number;
  readonly vocabulary: number;
  readonly isTied: boolean;
  /** Whether queries and keys are normalised (Qwen3). */
  readonly hasQueryKeyNorm: boolean;
  /** Whether queries, keys and values have biases (Qwen2). */
  readonly hasQkvBias: boolean;
}

export interface TrainerSettings {
  readonly rank: number;
  readonly targets: readonly string[];
  /** Tokens per micro-batch. */
  readonly maxTokens: number;
  readonly checkpointing: boolean;
  /** Bytes per weight of the frozen base: 2 (bfloat16) or 4. */
  readonly bytesPerWeight: number;
}

/** Bytes of each part. */
export interface TrainerMemory {
  readonly weights: number;
  readonly adapter: number;
  readonly activations: number;
  readonly working: number;
  readonly head: number;
  readonly context: number;
  readonly total: number;
}

export const GIB = 2 ** 30;
/** CUDA context, kernels and the libraries' own workspaces: 0.5 to 1.5 GiB in practice. */
const CONTEXT_BYTES = 1.5 * GIB;
/** The head holds three chunks of logits of 1 GiB at once (`rows_of_chunk` in head.py). */
const HEAD_BYTES = 3 * GIB;
/** Parameter, gradient and two Adam moments in float32, plus a copy in half precision for the products. */
const BYTES_PER_ADAPTER_PARAMETER = 4 + 4 + 8 + 2;

/** Reads the config.json of Qwen2, Qwen3 or a decoder of the same architecture. Throws if a size is missing. */
export function modelShape(name: string, config: Readonly<Record<string, unknown>>): ModelShape {
  const size = (key: string, otherwise?: number): number => {
    const value = config[key] ?? otherwise;
    if (typeof value === 'number' && Number.isInteger(value) && value > 0) return value;
    throw new RangeError(`${key} in the config.json of ${name} must be a whole number above 0, got ${JSON.stringify(config[key])}.`);
  };
  const [hidden, heads] = [size('hidden_size'), size('num_attention_heads')];
  return {
    name,
    hidden,
    heads,
    layers: size('num_hidden_layers'),
    feedForward: size('intermediate_size'),
    keyValueHeads: size('num_key_value_heads', heads),
    headDim: size('head_dim', hidden / heads),
    vocabulary: size('vocab_size'),
    isTied: config['tie_word_embeddings'] === true,
    hasQueryKeyNorm: config['model_type'] === 'qwen3',
    hasQkvBias: config['model_type'] === 'qwen2' || config['attention_bias'] === true,
  };
}

const queryWidth = ({ heads, headDim }: ModelShape) => heads * headDim;
const keyValueWidth = ({ keyValueHeads, headDim }: ModelShape) => keyValueHeads * headDim;

/** [in, out] of every linear layer of one decoder layer. */
function linears(shape: ModelShape): Readonly<Record<string, readonly [number, number]>> {
  const { hidden, feedForward } = shape;
  const [query, keyValue] = [queryWidth(shape), keyValueWidth(shape)];
  return {
    q_proj: [hidden, query],
    k_proj: [hidden, keyValue],
    v_proj: [hidden, keyValue],
    o_proj: [query, hidden],
    gate_proj: [hidden, feedForward],
    up_proj: [hidden, feedForward],
    down_proj: [feedForward, hidden],
  };
}

export function parameterCount(shape: ModelShape): number {
  const { layers, hidden, vocabulary, headDim } = shape;
  const matrices = Object.values(linears(shape)).reduce((sum, [input, output]) => sum + input * output, 0);
  const vectors = 2 * hidden + (shape.hasQueryKeyNorm ? 2 * headDim : 0) + (shape.hasQkvBias ? queryWidth(shape) + 2 * keyValueWidth(shape) : 0);
  return (shape.isTied ? 1 : 2) * vocabulary * hidden + layers * (matrices + vectors) + hidden;
}

export function adapterParameterCount(shape: ModelShape, rank: number, targets: readonly string[]): number {
  const own = linears(shape);
  return targets.reduce((sum, target) => {
    const size = own[target];
    if (size === undefined) throw new RangeError(`LoRA targets must be among ${Object.keys(own).join(', ')}, got ${target}.`);
    return sum + shape.layers * rank * (size[0] + size[1]);
  }, 0);
}

/**
 * Bytes that autograd keeps per token and decoder layer. With H, Q, K, F the widths of hidden state, queries, keys and MLP these are: input and output of
 * both norms (4 H), queries, keys, values and output of attention (2 Q + 2 K), queries and keys before Qwen3's norms (Q + K), gate, its SiLU, up and their
 * product (4 F), and the low-rank output of each adapted layer. The worker's norms are fused and keep no float32 copies. Counted with
 * torch.autograd.graph.saved_tensors_hooks in float32 on a CPU, the worker's own layers keep 0.2 % more (the statistics of norms and softmax).
 */
export function activationBytesPerTokenAndLayer(shape: ModelShape, { rank, targets, bytesPerWeight }: Omit<TrainerSettings, 'maxTokens'>): number {
  const [query, keyValue] = [queryWidth(shape), keyValueWidth(shape)];
  const attention = (shape.hasQueryKeyNorm ? 3 : 2) * (query + keyValue);
  return bytesPerWeight * (4 * shape.hidden + attention + 4 * shape.feedForward + targets.length * rank);
}

export function trainerMemory(shape: ModelShape, settings: TrainerSettings): TrainerMemory {
  const { maxTokens, bytesPerWeight, checkpointing } = settings;
  const layer = activationBytesPerTokenAndLayer(shape, settings);
  // With checkpointing: the input of every layer, plus all activations of the layer in the backward pass.
  const perToken = checkpointing ? shape.layers * bytesPerWeight * shape.hidden + layer : shape.layers * layer;
  const parts = {
    weights: parameterCount(shape) * bytesPerWeight,
    adapter: adapterParameterCount(shape, settings.rank, settings.targets) * BYTES_PER_ADAPTER_PARAMETER,
    activations: maxTokens * perToken,
    // Gradients of the widest tensors in the backward pass of one layer's MLP.
    working: maxTokens * 4 * shape.feedForward * bytesPerWeight,
    // Chunks never have more rows than the micro-batch.
    head: Math.min(HEAD_BYTES, 3 * 4 * shape.vocabulary * maxTokens),
    context: CONTEXT_BYTES,
  };
  return { ...parts, total: Object.values(parts).reduce((sum, bytes) => sum + bytes, 0) };
}

/** The largest micro-batch, a multiple of 1,024 tokens, that fits `bytes`; 0 if none fits. */
export function largestMicroBatch(shape: ModelShape, settings: Omit<TrainerSettings, 'maxTokens'>, bytes: number): number {
  const fits = (maxTokens: number) => trainerMemory(shape, { ...settings, maxTokens }).total <= bytes;
  let blocks = 0;
  for (let step = 256; step >= 1; step /= 2) while (blocks + step <= 512 && fits((blocks + step) * 1024)) blocks += step;
  return blocks * 1024;
}

/** vLLM keeps keys and values of every layer in half precision. */
export function cacheBytesPerToken(shape: ModelShape): number {
  return 2 * 2 * shape.layers * keyValueWidth(shape);
}

/** vLLM's memory without its cache: weights, plus 3 GiB for a prefill's activations, CUDA graphs, adapters and context. vLLM logs the real figure at its start. */
export function serverFixedBytes(shape: ModelShape): number {
  return 2 * parameterCount(shape) + 3 * GIB;
}

/** Number of whole rollouts of `contextTokens` whose cache fits in `bytes` besides the weights. */
export function concurrentRollouts(shape: ModelShape, bytes: number, contextTokens: number): number {
  return Math.max(0, Math.floor((bytes - serverFixedBytes(shape)) / (cacheBytesPerToken(shape) * contextTokens)));
}
