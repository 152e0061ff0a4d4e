import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ModelConfig } from '../../../src/engine/model/model-types.ts';
import { splitBatch } from '../../../src/engine/training/split-batch.ts';
import type { PackedBatch } from '../../../src/trainer/gradient-backend.ts';
import { batches, smallBatch } from '../../contracts/gradient-cases.ts';

const config: ModelConfig = {
  vocabularySize: 1600,
  hiddenSize: 128,
  intermediateSize: 384,
  layers: 4,
  heads: 4,
  kvHeads: 2,
  headDim: 32,
  maxPositions: 2048,
  rmsNormEpsilon: 1e-6,
  ropeTheta: 1e4,
  tiedEmbeddings: true,
  endTokenIds: [],
  path: 'nano',
};

/** What a target is: the tokens of its sequence up to it, and itself. */
function wanted({ ids, offsets, targets }: Pick<PackedBatch, 'ids' | 'offsets' | 'targets'>): string[] {
  return Array.from(targets, (target) => {
    const start = offsets.findLast((offset) => offset <= target)!;
    const end = offsets.find((offset) => offset > target)!;
    return `${ids.slice(start, end).join(' ')} at ${target - start}`;
  });
}

/** One sequence of each length, the last token of each a target. */
function ofLengths(lengths: readonly number[]): PackedBatch {
  const ends = lengths.map((_, i) => lengths.slice(0, i + 1).reduce((sum, n) => sum + n, 0));
  const ids = Int32Array.from({ length: ends.at(-1)! }, (_, i) => (i * 7919) % 1600);
  return { ids, offsets: Int32Array.of(0, ...ends), targets: Int32Array.from(ends, (end) => end - 1), temperature: 1 };
}

describe('splitBatch', () => {
  it('gives every target to one shard, in its own sequence {any batch, any threads}', () => {
    const check = (batch: PackedBatch, threads: number) => {
      const shards = splitBatch(batch, threads, config);
      expect(shards.length).toBeLessThanOrEqual(threads);
      const all = wanted(batch);
      const places = shards.flatMap((shard) => [...shard.places]);
      expect(places.toSorted((a, b) => a - b)).toEqual(all.map((_, i) => i));
      for (const shard of shards) {
        expect(shard.batch.targets.length).toBeGreaterThan(0);
        expect(shard.batch.targets.every((target, i, targets) => i === 0 || target > targets[i - 1]!)).toBe(true);
        expect(wanted(shard.batch)).toEqual(Array.from(shard.places, (place) => all[place]));
      }
    };
    fc.assert(fc.property(batches(1600), fc.integer({ min: 1, max: 9 }), check), { numRuns: 200 });
  });

  it('leaves out sequences without a target, which nothing depends on', () => {
    const [shard, ...others] = splitBatch(smallBatch(1600), 1, config);
    expect(others).toEqual([]);
    expect(shard!.batch.offsets.length - 1).toBe(2);
  });

  it('uses as many threads as there are sequences, at most', () => {
    expect(splitBatch(ofLengths([5, 5, 5]), 8, config)).toHaveLength(3);
    expect(splitBatch(ofLengths([5, 5, 5]), 2, config)).toHaveLength(2);
  });

  it('gives every thread the same work where sequences are alike', () => {
    const shards = splitBatch(ofLengths(Array.from({ length: 64 }, () => 50)), 4, config);
    expect(shards.map(({ batch }) => batch.ids.length)).toEqual([800, 800, 800, 800]);
  });

  it('leaves no thread with more than an even share and one sequence {any lengths}', () => {
    const check = (lengths: readonly number[], threads: number) => {
      const most = Math.max(...splitBatch(ofLengths(lengths), threads, config).map(({ batch }) => batch.ids.length));
      // Long sequences cost more a token, but with these sizes by less than a quarter.
      expect(most).toBeLessThanOrEqual(1.25 * (lengths.reduce((sum, n) => sum + n, 0) / threads + Math.max(...lengths)));
    };
    fc.assert(fc.property(fc.array(fc.integer({ min: 2, max: 60 }), { minLength: 1, maxLength: 40 }), fc.integer({ min: 1, max: 8 }), check));
  });

  it('keeps sequences that begin alike on one thread, side by side', () => {
    const [first, second] = [Array.from({ length: 20 }, (_, i) => i), Array.from({ length: 20 }, (_, i) => 100 + i)];
    const sequences = [second, first, second, first].map((head, i) => [...head, 500 + i]);
    const batch = {
      ids: Int32Array.from(sequences.flat()),
      offsets: Int32Array.of(0, 21, 42, 63, 84),
      targets: Int32Array.of(20, 41, 62, 83),
      temperature: 1,
    };
    expect(splitBatch(batch, 2, config).map(({ places }) => [...places])).toEqual([
      [1, 3],
      [0, 2],
    ]);
  });

  it('cuts the same batch in the same way', () => {
    const batch = ofLengths([30, 4, 17, 17, 22, 9]);
    expect(splitBatch(batch, 3, config)).toEqual(splitBatch(batch, 3, config));
  });
});
