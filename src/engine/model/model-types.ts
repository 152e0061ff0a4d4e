/** What the engine knows of a model, and how its weights lie in memory. */

/** A dense Qwen3 decoder, as config.json describes it. */
export interface ModelConfig {
  readonly vocabularySize: number;
  readonly hiddenSize: number;
  readonly intermediateSize: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Longest sequence, in tokens. */
  readonly maxPositions: number;
  readonly rmsNormEpsilon: number;
  readonly ropeTheta: number;
  readonly tiedEmbeddings: boolean;
  /** Of generation_config.json, else config.json; empty where neither names one. */
  readonly endTokenIds: readonly number[];
  /** As it is called in adapter_config.json and in messages. */
  readonly path: string;
}

/** A weight `[outputs, inputs]` packed for `gemm`: panels of 8 outputs, `[ceil(outputs / 8)][inputs][8]`; float32, but for a WeightMatrix. */
export interface PackedMatrix {
  readonly pointer: number;
  readonly inputs: number;
  /** Without the padding of the last panel. */
  readonly outputs: number;
}

/** How a matrix of the base is kept. What the files hold as bfloat16 stays so; the kernels widen it, which changes no number. */
export type WeightType = 'float32' | 'bfloat16';
export const WEIGHT_BYTES = { float32: 4, bfloat16: 2 } as const satisfies Readonly<Record<WeightType, number>>;

/** A matrix of the base: a PackedMatrix whose numbers are of `type`. */
export interface WeightMatrix extends PackedMatrix {
  readonly type: WeightType;
}

export interface LayerWeights {
  readonly inputNorm: number;
  /** Queries of all heads, then keys, then values. */
  readonly qkv: WeightMatrix;
  readonly queryNorm: number;
  readonly keyNorm: number;
  readonly output: WeightMatrix;
  readonly postNorm: number;
  /** Gate, then up. */
  readonly gateUp: WeightMatrix;
  readonly down: WeightMatrix;
}

/** Plain data: it travels to the threads as it is, and points into the shared memory. */
export interface ModelWeights {
  readonly config: ModelConfig;
  readonly embedding: WeightMatrix;
  readonly layers: readonly LayerWeights[];
  readonly finalNorm: number;
  /** The same matrix as `embedding` where they are tied. */
  readonly head: WeightMatrix;
  /** [maxPositions][headDim]: cosines, then sines. */
  readonly rotations: number;
}

/** The linear layers that an adapter may stand beside, by the last part of their name in PEFT's files. */
export const ADAPTED = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const;
export type AdaptedName = (typeof ADAPTED)[number];

/** Largest rank of an adapter, served or trained: the largest that vLLM takes. */
export const MAX_ADAPTER_RANK = 512;

/** One adapted linear layer: y += B · (A · x), B multiplied by alpha / rank already. */
export interface LoraPair {
  /** inputs → rank, padded with zeros to a multiple of 8. */
  readonly a: PackedMatrix;
  /** rank (padded) → outputs. */
  readonly b: PackedMatrix;
}

/** Plain data that points into the shared memory. Layers and modules that are not adapted are absent. */
export interface AdapterWeights {
  /** Never the same twice in an engine's life: the cache of prefixes goes by it. 0 stands for the base. */
  readonly id: number;
  /** Padded to a multiple of 8. */
  readonly paddedRank: number;
  readonly layers: readonly Partial<Readonly<Record<AdaptedName, LoraPair>>>[];
}
