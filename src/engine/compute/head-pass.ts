/** Forward and backward between the last hidden states and the log-probs of targets. Logits are computed in chunks of rows to bound the memory of a large vocabulary. */
import type { Kernels } from '../kernels/kernels.ts';
import type { ModelWeights } from '../model/model-types.ts';
import { type Dimensions, dimensionsOf, roundUp } from './dimensions.ts';
import type { MemoryViews } from './memory-views.ts';
import { type BackwardBuffers, HEAD_COLUMNS, type HeadBuffers } from './training-layout.ts';
import { multiplyWeight, repackWeight } from './weight-products.ts';

/** W rows of hidden states; `at.targets` holds their targets. */
export interface HeadRows {
  readonly at: HeadBuffers;
  readonly count: number;
  readonly inverseTemperature: number;
}

export class HeadPass {
  readonly #kernels: Kernels;
  readonly #model: ModelWeights;
  readonly #sizes: Dimensions;
  readonly #views: MemoryViews;

  constructor(parts: { readonly kernels: Kernels; readonly model: ModelWeights; readonly views: MemoryViews }) {
    this.#kernels = parts.kernels;
    this.#model = parts.model;
    this.#sizes = dimensionsOf(parts.model.config);
    this.#views = parts.views;
  }

  forward(rows: HeadRows, withEntropy: boolean): { readonly logProbs: Float32Array; readonly entropy: Float32Array | null } {
    const { at, count } = rows;
    const { hidden, vocabularyStride: stride } = this.#sizes;
    const { finalNorm, config } = this.#model;
    this.#kernels.rmsNorm(at.out, hidden, finalNorm, at.normed, hidden, at.inverse, count, hidden, config.rmsNormEpsilon);
    const logProbs = new Float32Array(count);
    const { floats, ints } = this.#views;
    for (let first = 0; first < count; first += at.chunk) {
      const some = Math.min(at.chunk, count - first);
      this.#logProbs(rows, first, some);
      for (let i = 0; i < some; i++) logProbs[first + i] = floats[at.logits / 4 + i * stride + ints[at.targets / 4 + first + i]!]!;
      if (withEntropy) this.#entropies(at, first, some);
    }
    return { logProbs, entropy: withEntropy ? floats.slice(at.entropies / 4, at.entropies / 4 + count) : null };
  }

  /** Writes the gradient of the hidden states to `dWanted` [W, hidden]. Recomputes log-probs that were overwritten. */
  backward(rows: HeadRows, buffers: BackwardBuffers, withEntropy: boolean): void {
    const { at, count, inverseTemperature } = rows;
    const { hidden, vocabularyStride: stride } = this.#sizes;
    const { dNormed, dWanted } = buffers;
    for (let first = 0; first < count; first += at.chunk) {
      const some = Math.min(at.chunk, count - first);
      if (at.chunk < count) this.#logProbs(rows, first, some);
      if (withEntropy) this.#entropies(at, first, some);
      const offset = first * 4;
      const [entropies, dEntropies] = withEntropy ? [at.entropies + offset, at.dEntropies + offset] : [0, 0];
      const { targets, dLogProbs, logits } = at;
      this.#kernels.logSoftmaxBackward(logits, stride, some, stride, targets + offset, dLogProbs + offset, entropies, dEntropies, inverseTemperature);
      const shift = first * hidden * 4;
      this.#throughHead(at, some, buffers, dWanted + shift);
      const { finalNorm } = this.#model;
      this.#kernels.rmsNormBackward(
        at.out + shift,
        hidden,
        finalNorm,
        at.inverse + offset,
        dNormed,
        hidden,
        dWanted + shift,
        hidden,
        some,
        hidden,
        0,
      );
    }
  }

  /**
   * `dNormed` = the logits' gradient · W, some columns of the head at a time. Each piece is summed separately, in `piece` [rows, hidden]: added one by one to the target's
   * large gradient, the many small ones would be rounded away.
   */
  #throughHead(at: HeadBuffers, rows: number, { repacked, dNormed }: BackwardBuffers, piece: number): void {
    const { hidden, vocabulary, vocabularyStride: stride } = this.#sizes;
    const { head } = this.#model;
    for (let column = 0; column < vocabulary; column += HEAD_COLUMNS) {
      const columns = Math.min(HEAD_COLUMNS, vocabulary - column);
      const padded = roundUp(columns, 8);
      repackWeight(this.#kernels, head, column, columns, repacked);
      this.#kernels.gemm(at.logits + column * 4, stride, repacked, padded * 8, column === 0 ? dNormed : piece, hidden, rows, hidden, padded, 0);
      if (column > 0) this.#kernels.addTo(dNormed, piece, rows * hidden);
    }
  }

  #logProbs({ at, inverseTemperature }: HeadRows, first: number, rows: number): void {
    const { hidden, vocabulary, vocabularyStride: stride } = this.#sizes;
    const { head } = this.#model;
    multiplyWeight(this.#kernels, head, at.normed + first * hidden * 4, hidden, at.logits, stride, rows);
    this.#kernels.logSoftmax(at.logits, stride, rows, stride, vocabulary, inverseTemperature);
  }

  #entropies(at: HeadBuffers, first: number, rows: number): void {
    const { vocabularyStride: stride } = this.#sizes;
    this.#kernels.entropy(at.logits, stride, rows, stride, at.entropies + first * 4);
  }
}
