import { ROW_MASK, type Shard } from './shard.ts';
import type { Similarity } from './similarity.ts';
import type { TopHits } from './top-hits.ts';

/**
 * Scores every passage of the shard that contains any of the terms: for queries with very many terms and for long result lists, where pruning
 * costs more than it saves. Adds `firstRow` to the rows offered to `hits`. `ids` and `weights` are parallel.
 */
export function searchExhaustively(
  { shard, similarity }: { readonly shard: Shard; readonly similarity: Similarity },
  ids: readonly number[],
  weights: readonly number[],
  firstRow: number,
  hits: TopHits,
): void {
  const { offsets, middles, frequencyOffsets, postings, frequencies } = shard.arrays;
  const scores = new Float64Array(shard.rows).fill(-1);
  for (const [i, id] of ids.entries()) {
    if (shard.passagesWith(id) === 0) continue;
    const toFrequency = frequencyOffsets[id]! - offsets[id]!;
    for (let p = offsets[id]!; p < offsets[id + 1]!; p++) {
      const posting = postings[p]!;
      const row = posting & ROW_MASK;
      const frequency = p < middles[id]! ? frequencies[p + toFrequency]! : 1;
      scores[row] = Math.max(0, scores[row]!) + similarity.termScore(weights[i]!, frequency, posting >>> 24);
    }
  }
  for (let row = 0; row < shard.rows; row++) if (scores[row]! >= 0) hits.offer(firstRow + row, Math.fround(scores[row]!));
}
