/**
 * One decoder layer in two halves: attention, and the rest. Sampling and training both run this code; they differ in the buffers they keep. Buffers may coincide
 * (a layer's input, middle and output; queries and their projection); this saves copies and does not change the numbers.
 */
import type { Kernels } from '../kernels/kernels.ts';
import type { ModelWeights } from '../model/model-types.ts';
import { type Dimensions, dimensionsOf } from './dimensions.ts';
import { addLowRank } from './low-rank.ts';
import type { AdapterRun, RowPlan } from './row-plan.ts';
import { multiplyWeight } from './weight-products.ts';

/** Addresses. Buffers that only the backward pass needs may be 0. */
export interface AttentionBuffers {
  /** Input of the layer, [rows, hidden]. */
  readonly x: number;
  readonly normed: number;
  /** [rows] or 0. */
  readonly inverse: number;
  /** Queries, keys and values as projected. [rows, qkvWidth] */
  readonly qkv: number;
  /** [rows, heads] or 0. */
  readonly queryInverse: number;
  /** [rows, kvHeads] or 0. */
  readonly keyInverse: number;
  /** Normalized, rotated and scaled queries; may lie in `qkv`. */
  readonly queries: number;
  readonly queryStride: number;
  readonly keys: number;
  readonly keyStride: number;
  /** [rows, queryWidth] */
  readonly attended: number;
  /** [rows, heads] or 0. */
  readonly statistics: number;
}

export interface FeedForwardBuffers {
  /** [rows, queryWidth] */
  readonly attended: number;
  /** Input of the layer. */
  readonly x: number;
  /** After attention; may be `x`. */
  readonly middle: number;
  readonly normed: number;
  /** [rows] or 0. */
  readonly inverse: number;
  /** [rows, 2 · intermediate] */
  readonly gateUp: number;
  /** [rows, intermediate] */
  readonly gated: number;
  /** May be `middle`. */
  readonly out: number;
}

export interface LayerScratch {
  /** As large as the kernel needs for the longest sequence. */
  readonly attention: number;
  /** [rows, padded rank] */
  readonly lowRank: number;
}

export class LayerForward {
  readonly #kernels: Kernels;
  readonly #model: ModelWeights;
  readonly #sizes: Dimensions;

  constructor(parts: { readonly kernels: Kernels; readonly model: ModelWeights }) {
    this.#kernels = parts.kernels;
    this.#model = parts.model;
    this.#sizes = dimensionsOf(parts.model.config);
  }

  /** From `x` to `attended`, through this layer's cache. With `wantedOnly` it skips the rows of a segment before its first wanted one. */
  attend(layer: number, plan: RowPlan, at: AttentionBuffers, cache: number, scratch: LayerScratch, wantedOnly: boolean): void {
    this.#project(layer, plan, at, scratch);
    const kernels = this.#kernels;
    const { heads, kvHeads, headDim, qkvWidth, queryWidth, keyWidth, layerBlockBytes } = this.#sizes;
    const { segments } = plan;
    const values = at.qkv + (queryWidth + keyWidth) * 4;
    // All writes come first, because a segment may read blocks that another segment of the pass writes.
    for (let i = 0; i < segments.length; i++) {
      const { row, count, past, table } = segments[i]!;
      const keys = at.keys + row * at.keyStride * 4;
      kernels.writeCache(keys, at.keyStride, values + row * qkvWidth * 4, qkvWidth, count, past, kvHeads, headDim, cache, layerBlockBytes, table);
    }
    for (let i = 0; i < segments.length; i++) {
      const { row, count, past, table, firstWanted } = segments[i]!;
      const skipped = wantedOnly ? firstWanted : 0;
      if (skipped === count) continue;
      const first = row + skipped;
      kernels.attention(
        at.queries + first * at.queryStride * 4,
        at.queryStride,
        count - skipped,
        past + skipped,
        heads,
        kvHeads,
        headDim,
        cache,
        layerBlockBytes,
        table,
        at.attended + first * queryWidth * 4,
        queryWidth,
        scratch.attention,
        at.statistics === 0 ? 0 : at.statistics + first * heads * 4,
      );
    }
  }

  #project(layer: number, plan: RowPlan, at: AttentionBuffers, scratch: LayerScratch): void {
    const kernels = this.#kernels;
    const { rows, runs, positions } = plan;
    const weights = this.#model.layers[layer]!;
    const { rmsNormEpsilon: epsilon } = this.#model.config;
    const { rotations } = this.#model;
    const { hidden, heads, kvHeads, headDim, qkvWidth, queryWidth, keyWidth } = this.#sizes;
    const keys = at.qkv + queryWidth * 4;
    const values = keys + keyWidth * 4;
    kernels.rmsNorm(at.x, hidden, weights.inputNorm, at.normed, hidden, at.inverse, rows, hidden, epsilon);
    multiplyWeight(kernels, weights.qkv, at.normed, hidden, at.qkv, qkvWidth, rows);
    if (runs.length > 0) {
      addLowRank(kernels, runs, layer, 'q_proj', at.normed, hidden, at.qkv, qkvWidth, scratch.lowRank);
      addLowRank(kernels, runs, layer, 'k_proj', at.normed, hidden, keys, qkvWidth, scratch.lowRank);
      addLowRank(kernels, runs, layer, 'v_proj', at.normed, hidden, values, qkvWidth, scratch.lowRank);
    }
    kernels.headNorm(at.qkv, qkvWidth, weights.queryNorm, at.queries, at.queryStride, at.queryInverse, rows, heads, headDim, epsilon);
    kernels.headNorm(keys, qkvWidth, weights.keyNorm, at.keys, at.keyStride, at.keyInverse, rows, kvHeads, headDim, epsilon);
    kernels.rotate(at.queries, at.queryStride, rows, heads, headDim, rotations, positions, 1, 1 / Math.sqrt(headDim));
    kernels.rotate(at.keys, at.keyStride, rows, kvHeads, headDim, rotations, positions, 1, 1);
  }

  /** From `attended` and `x` to `out`. */
  feedForward(layer: number, rows: number, runs: readonly AdapterRun[], at: FeedForwardBuffers, scratch: LayerScratch): void {
    this.expand(layer, rows, runs, at, scratch);
    const kernels = this.#kernels;
    const { down } = this.#model.layers[layer]!;
    const { hidden, intermediate } = this.#sizes;
    const sum = at.out === at.middle ? at.normed : at.out;
    multiplyWeight(kernels, down, at.gated, intermediate, sum, hidden, rows);
    if (runs.length > 0) addLowRank(kernels, runs, layer, 'down_proj', at.gated, intermediate, sum, hidden, scratch.lowRank);
    this.#addResidual(at.middle, sum, at.out, rows);
  }

  /** The part of `feedForward` up to `gated`, which the backward pass needs. */
  expand(layer: number, rows: number, runs: readonly AdapterRun[], at: FeedForwardBuffers, scratch: LayerScratch): void {
    const kernels = this.#kernels;
    const weights = this.#model.layers[layer]!;
    const { hidden, intermediate, queryWidth } = this.#sizes;
    const { lowRank } = scratch;
    const width = 2 * intermediate;
    const up = at.gateUp + intermediate * 4;
    const sum = at.middle === at.x ? at.normed : at.middle;
    multiplyWeight(kernels, weights.output, at.attended, queryWidth, sum, hidden, rows);
    if (runs.length > 0) addLowRank(kernels, runs, layer, 'o_proj', at.attended, queryWidth, sum, hidden, lowRank);
    this.#addResidual(at.x, sum, at.middle, rows);
    kernels.rmsNorm(at.middle, hidden, weights.postNorm, at.normed, hidden, at.inverse, rows, hidden, this.#model.config.rmsNormEpsilon);
    multiplyWeight(kernels, weights.gateUp, at.normed, hidden, at.gateUp, width, rows);
    if (runs.length > 0) {
      addLowRank(kernels, runs, layer, 'gate_proj', at.normed, hidden, at.gateUp, width, lowRank);
      addLowRank(kernels, runs, layer, 'up_proj', at.normed, hidden, up, width, lowRank);
    }
    kernels.siluMultiply(at.gateUp, width, up, width, at.gated, intermediate, rows, intermediate);
  }

  /**
   * `out` = `x` + `sum`, where one of the two already is `out`. A product is summed before it is added to the residual: the residual is large, and adding term by term
   * would lose a little of every term.
   */
  #addResidual(x: number, sum: number, out: number, rows: number): void {
    this.#kernels.addTo(out, out === x ? sum : x, rows * this.#sizes.hidden);
  }
}
