/** Packs whole sequences into micro-batches without padding, as many as the token budget allows. */
import type { PackedBatch } from '../gradient-backend.ts';
import type { TokenPart } from '../trajectory-branches.ts';

/** A micro-batch. Sequence `members[i]` has targets `[targetOffsets[i], targetOffsets[i + 1])`. */
export interface MicroBatch {
  readonly batch: PackedBatch;
  readonly members: readonly number[];
  /** [B + 1] */
  readonly targetOffsets: Int32Array;
}

/**
 * First-fit decreasing: micro-batches are nearly full and depend only on the lengths. A sequence longer than the budget gets its own micro-batch, since
 * it cannot be split; whether it fits in memory shows in the backend.
 */
export function packBatches(sequences: readonly TokenPart[], maxTokens: number, temperature: number): MicroBatch[] {
  const order = sequences.map((_, i) => i).toSorted((a, b) => sequences[b]!.ids.length - sequences[a]!.ids.length || a - b);
  const bins: { members: number[]; tokens: number }[] = [];
  for (const member of order) {
    const { length } = sequences[member]!.ids;
    const bin = bins.find(({ tokens }) => tokens + length <= maxTokens);
    if (bin === undefined) bins.push({ members: [member], tokens: length });
    else {
      bin.members.push(member);
      bin.tokens += length;
    }
  }
  return bins.map(({ members }) => microBatchOf(sequences, members, temperature));
}

/** The sequences `members` in one micro-batch, in this order. Each has at least one target, and none at its first token. */
export function microBatchOf(sequences: readonly TokenPart[], members: readonly number[], temperature: number): MicroBatch {
  const packed = members.map((member) => sequences[member]!);
  const offsets = runningSum(packed.map(({ ids }) => ids.length));
  const targetOffsets = runningSum(packed.map(({ targets }) => targets.length));
  const ids = new Int32Array(offsets.at(-1)!);
  const targets = new Int32Array(targetOffsets.at(-1)!);
  for (const [i, sequence] of packed.entries()) {
    ids.set(sequence.ids, offsets[i]);
    for (let k = 0; k < sequence.targets.length; k++) targets[targetOffsets[i]! + k] = offsets[i]! + sequence.targets[k]!;
  }
  const images = packed.flatMap(({ images: own = [] }, sequence) =>
    own.map(({ sha256, offset, length }) => ({ sequence, sha256, offset: offsets[sequence]! + offset, length })),
  );
  return { batch: { ids, offsets, targets, temperature, ...(images.length === 0 ? {} : { images }) }, members, targetOffsets };
}

/** [n + 1], from 0. */
function runningSum(lengths: readonly number[]): Int32Array {
  const sums = new Int32Array(lengths.length + 1);
  for (const [i, length] of lengths.entries()) sums[i + 1] = sums[i]! + length;
  return sums;
}
