/** A model's configuration, and its weights in memory. */

/** A dense Qwen3 decoder, from config.json. */
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
  /** From generation_config.json, else config.json; empty if neither names one. */
  readonly endTokenIds: readonly number[];
  /** The model's directory; also its name in adapter_config.json and messages. */
  readonly path: string;
}

/** A weight `[outputs, inputs]` packed for `gemm` in panels of 8 outputs, `[ceil(outputs / 8)][inputs][8]`; float32, except for a WeightMatrix. */
export interface PackedMatrix {
  readonly pointer: number;
  readonly inputs: number;
  /** Without the padding of the last panel. */
  readonly outputs: number;
}

/** Type of a base matrix in memory. bfloat16 files stay bfloat16; the kernels widen the numbers, which is exact. */
export type WeightType = 'float32' | 'bfloat16';
export const WEIGHT_BYTES = { float32: 4, bfloat16: 2 } as const satisfies Readonly<Record<WeightType, number>>;

/** A base matrix: a PackedMatrix with numbers of `type`. */
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

/** Plain data that points into the shared memory and can be sent to threads. */
export interface ModelWeights {
  readonly config: ModelConfig;
  readonly embedding: WeightMatrix;
  readonly layers: readonly LayerWeights[];
  readonly finalNorm: number;
  /** The same matrix as `embedding` if they are tied. */
  readonly head: WeightMatrix;
  /** [maxPositions][headDim]: cosines, then sines. */
  readonly rotations: number;
}

/** The linear layers that adapters can adapt, by the last part of their name in PEFT's files. */
export const ADAPTED = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'] as const;
export type AdaptedName = (typeof ADAPTED)[number];

/** Largest rank of an adapter, served or trained; the same as vLLM's. */
export const MAX_ADAPTER_RANK = 512;

/** One adapted linear layer: y += B · (A · x), where B is already multiplied by alpha / rank. */
export interface LoraPair {
  /** inputs → rank, padded with zeros to a multiple of 8. */
  readonly a: PackedMatrix;
  /** rank (padded) → outputs. */
  readonly b: PackedMatrix;
}

/** Plain data that points into the shared memory. Unadapted layers and modules are absent. */
export interface AdapterWeights {
  /** Unique in an engine's life, because the prefix cache uses it as a key. 0 stands for the base model. */
  readonly id: number;
  /** Padded to a multiple of 8. */
  readonly paddedRank: number;
  readonly layers: readonly Partial<Readonly<Record<AdaptedName, LoraPair>>>[];
}
