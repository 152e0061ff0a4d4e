/** Forward and backward of whole sequences, within one thread. */
import type { AdapterWeights } from '../model/model-types.ts';

/** Sequences that one thread works on, unpadded, as the trainer packs them. */
export interface SequenceBatch {
  /** [N] */
  readonly ids: Int32Array;
  /** [B + 1] */
  readonly offsets: Int32Array;
  /** Ascending places in `ids`, never the first of a sequence. [M] */
  readonly targets: Int32Array;
  readonly temperature: number;
}

/** Where the gradient of an adapter is accumulated: A `[rank, inputs]` and B `[outputs, rank]` of each module row-major, float32, rank unpadded. */
export interface AdapterGradient {
  /** Unpadded. */
  readonly rank: number;
  readonly layers: readonly Partial<Readonly<Record<string, { readonly a: number; readonly b: number }>>>[];
}

export interface TrainingPass {
  /** Log-probs [M] and, if asked for, entropies [M]. With `retain` what `backward` needs is kept; what was kept before is forgotten. */
  forward(
    batch: SequenceBatch,
    options: { readonly adapter: AdapterWeights | null; readonly retain: boolean; readonly entropy: boolean },
  ): { readonly logProbs: Float32Array; readonly entropy: Float32Array | null };
  /** Adds to `gradient` that of the retained batch, which is then forgotten. `scale` is alpha / rank. */
  backward(gradient: AdapterGradient, d: { readonly dLogProbs: Float32Array; readonly dEntropy: Float32Array | null; readonly scale: number }): void;
  drop(): void;
}
