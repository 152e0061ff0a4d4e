/** Forward and backward passes over whole sequences, within one thread. */
import type { AdapterWeights } from '../model/model-types.ts';

/** Unpadded sequences, packed as the trainer packs them. */
export interface SequenceBatch {
  /** [N] */
  readonly ids: Int32Array;
  /** [B + 1] */
  readonly offsets: Int32Array;
  /** Ascending indexes into `ids`, never the first token of a sequence. [M] */
  readonly targets: Int32Array;
  /** Ids whose log-probs are wanted, in place of those that the sequences have at the targets. [M] @default theirs */
  readonly targetIds?: Int32Array;
  readonly temperature: number;
}

/** Addresses where an adapter's gradient is accumulated: each module's A `[rank, inputs]` and B `[outputs, rank]`, row-major float32. */
export interface AdapterGradient {
  /** Unpadded. */
  readonly rank: number;
  readonly layers: readonly Partial<Readonly<Record<string, { readonly a: number; readonly b: number }>>>[];
}

export interface TrainingPass {
  /** Returns log-probs [M] and, if requested, entropies [M]. `retain` keeps what `backward` needs and releases what was kept before. */
  forward(
    batch: SequenceBatch,
    options: { readonly adapter: AdapterWeights | null; readonly retain: boolean; readonly entropy: boolean },
  ): { readonly logProbs: Float32Array; readonly entropy: Float32Array | null };
  /** Adds the gradient of the retained batch to `gradient` and releases the batch. `scale` is alpha / rank. */
  backward(gradient: AdapterGradient, d: { readonly dLogProbs: Float32Array; readonly dEntropy: Float32Array | null; readonly scale: number }): void;
}
