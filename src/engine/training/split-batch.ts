/**
 * Splits a batch among the threads by whole sequences so that the costliest share is as cheap as possible. The same batch is always split in the same way. Sequences
 * with a common prefix stay together, so that a thread computes the prefix once.
 */
import type { SequenceBatch } from '../compute/training-types.ts';
import type { ModelConfig } from '../model/model-types.ts';

export interface Shard {
  readonly batch: SequenceBatch;
  /** Index of each of the shard's targets among those of the whole batch. */
  readonly places: Int32Array;
}

interface Sequence {
  readonly ids: Int32Array;
  readonly start: number;
  /** Range in the batch's targets. */
  readonly from: number;
  readonly to: number;
  readonly cost: number;
}

/** Returns at most `threads` shards, none of them empty. Leaves out sequences without a target, because nothing depends on them. */
export function splitBatch(batch: SequenceBatch, threads: number, config: ModelConfig): Shard[] {
  const sequences = sequencesOf(batch, config).toSorted(byTokens);
  const parts = cut(
    sequences.map(({ cost }) => cost),
    threads,
  );
  return parts.map(([from, to]) => shardOf(batch, sequences.slice(from, to)));
}

function sequencesOf({ ids, offsets, targets }: SequenceBatch, config: ModelConfig): Sequence[] {
  const sequences: Sequence[] = [];
  let from = 0;
  for (let i = 0; i + 1 < offsets.length; i++) {
    const [start, end] = [offsets[i]!, offsets[i + 1]!];
    let to = from;
    while (to < targets.length && targets[to]! < end) to++;
    if (to > from) sequences.push({ ids: ids.subarray(start, end), start, from, to, cost: costOf(end - start, to - from, config) });
    from = to;
  }
  return sequences;
}

/** Approximate multiplications of a forward pass; a backward pass is proportional. */
function costOf(tokens: number, targets: number, config: ModelConfig): number {
  const { layers, hiddenSize, intermediateSize, heads, kvHeads, headDim, vocabularySize } = config;
  const linear = hiddenSize * (2 * (heads + kvHeads) * headDim + 3 * intermediateSize);
  return layers * tokens * (linear + tokens * heads * headDim) + targets * vocabularySize * hiddenSize;
}

/** Lexicographic order of their tokens; the stable sort keeps equal ones in order. */
function byTokens({ ids: a }: Sequence, { ids: b }: Sequence): number {
  const shared = Math.min(a.length, b.length);
  for (let i = 0; i < shared; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
}

/** Cuts into at most `count` consecutive parts `[from, to)` so that the costliest is as cheap as possible. */
function cut(costs: readonly number[], count: number): (readonly [number, number])[] {
  let [low, high] = [Math.max(...costs), costs.reduce((sum, cost) => sum + cost, 0)];
  // Costs are whole numbers, so this ends at the smallest limit that `count` parts can keep.
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (fill(costs, middle).length <= count) high = middle;
    else low = middle + 1;
  }
  return fill(costs, low);
}

/** As few parts as possible, none costlier than `limit`. */
function fill(costs: readonly number[], limit: number): (readonly [number, number])[] {
  const parts: (readonly [number, number])[] = [];
  let [from, sum] = [0, 0];
  for (const [i, cost] of costs.entries()) {
    if (sum + cost > limit) {
      parts.push([from, i]);
      [from, sum] = [i, 0];
    }
    sum += cost;
  }
  return [...parts, [from, costs.length]];
}

function shardOf({ targets, targetIds, temperature }: SequenceBatch, sequences: readonly Sequence[]): Shard {
  const offsets = [0];
  const [ids, shifted, places]: [number[], number[], number[]] = [[], [], []];
  for (const sequence of sequences) {
    const offset = ids.length;
    for (const id of sequence.ids) ids.push(id);
    for (let at = sequence.from; at < sequence.to; at++) {
      shifted.push(targets[at]! - sequence.start + offset);
      places.push(at);
    }
    offsets.push(ids.length);
  }
  const wanted = targetIds === undefined ? {} : { targetIds: Int32Array.from(places, (at) => targetIds[at]!) };
  const batch = { ids: Int32Array.from(ids), offsets: Int32Array.from(offsets), targets: Int32Array.from(shifted), ...wanted, temperature };
  return { batch, places: Int32Array.from(places) };
}
