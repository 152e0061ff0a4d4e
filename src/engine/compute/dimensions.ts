/** Sizes derived from a model's configuration, in float32 numbers unless stated otherwise. */
import type { ModelConfig } from '../model/model-types.ts';
import { BLOCK_TOKENS } from '../kernels/kernels.ts';

export interface Dimensions {
  readonly hidden: number;
  readonly intermediate: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Width of the queries of all heads. */
  readonly queryWidth: number;
  /** Width of the keys of all heads; the values are as wide. */
  readonly keyWidth: number;
  /** Width of queries, keys and values side by side. */
  readonly qkvWidth: number;
  readonly vocabulary: number;
  /** Stride between rows of logits: the vocabulary rounded up to whole panels. */
  readonly vocabularyStride: number;
  /** Bytes of one cache block in one layer. */
  readonly layerBlockBytes: number;
}

export const roundUp = (count: number, multiple: number): number => Math.ceil(count / multiple) * multiple;

export function dimensionsOf(config: ModelConfig): Dimensions {
  const queryWidth = config.heads * config.headDim;
  const keyWidth = config.kvHeads * config.headDim;
  return {
    hidden: config.hiddenSize,
    intermediate: config.intermediateSize,
    layers: config.layers,
    heads: config.heads,
    kvHeads: config.kvHeads,
    headDim: config.headDim,
    queryWidth,
    keyWidth,
    qkvWidth: queryWidth + 2 * keyWidth,
    vocabulary: config.vocabularySize,
    vocabularyStride: roundUp(config.vocabularySize, 8),
    layerBlockBytes: BLOCK_TOKENS * 2 * keyWidth * 4,
  };
}

/** Bytes of one cache block over all layers. */
export const cacheBlockBytes = (config: ModelConfig): number => config.layers * dimensionsOf(config).layerBlockBytes;
