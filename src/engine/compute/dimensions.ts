/** Sizes that follow from a model's configuration, in float32 numbers unless said. */
import type { ModelConfig } from '../model/model-types.ts';
import { BLOCK_TOKENS } from '../kernels/kernels.ts';

export interface Dimensions {
  readonly hidden: number;
  readonly intermediate: number;
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Of the queries of all heads. */
  readonly queryWidth: number;
  /** Of the keys of all heads; the values are as wide. */
  readonly keyWidth: number;
  /** Queries, keys and values side by side. */
  readonly qkvWidth: number;
  readonly vocabulary: number;
  /** The vocabulary rounded up to whole panels: numbers between rows of logits. */
  readonly vocabularyStride: number;
  /** Of one cache block in one layer. */
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

/** Bytes of one cache block over all layers: a cache of n blocks takes n times as many. */
export const cacheBlockBytes = (config: ModelConfig): number => config.layers * dimensionsOf(config).layerBlockBytes;
