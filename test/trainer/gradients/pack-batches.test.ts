import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packBatches } from '../../../src/trainer/gradients/pack-batches.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';

type Sequence = Pick<Trajectory, 'ids' | 'targets'>;

/** Token j of sequence i is 1000 i + j, so that every token shows where it comes from. */
const sequences: fc.Arbitrary<Sequence[]> = fc.array(fc.array(fc.boolean(), { minLength: 2, maxLength: 30 }), { maxLength: 20 }).map((wanted) =>
  wanted.map((flags, i) => {
    const targets = flags.flatMap((isWanted, j) => (isWanted && j > 0 ? [j] : []));
    return { ids: Int32Array.from(flags, (_, j) => 1000 * i + j), targets: Int32Array.from(targets.length === 0 ? [1] : targets) };
  }),
);
const budgets = fc.integer({ min: 1, max: 80 });

describe('packBatches', () => {
  it('puts every sequence into exactly one batch, whole {any sequences, any budget}', () => {
    const check = (given: Sequence[], budget: number) => {
      const packed = packBatches(given, budget, 0.7);
      expect(packed.flatMap(({ members }) => members).toSorted((a, b) => a - b)).toEqual(given.map((_, i) => i));
      for (const { batch, members } of packed) {
        expect(batch.temperature).toBe(0.7);
        expect(batch.offsets).toHaveLength(members.length + 1);
        for (const [at, member] of members.entries()) expect(batch.ids.slice(batch.offsets[at], batch.offsets[at + 1])).toEqual(given[member]!.ids);
        expect(batch.offsets.at(-1)).toBe(batch.ids.length);
      }
    };
    fc.assert(fc.property(sequences, budgets, check));
  });

  it('maps every target back to its sequence {any sequences, any budget}', () => {
    const check = (given: Sequence[], budget: number) => {
      for (const { batch, members, targetOffsets } of packBatches(given, budget, 1)) {
        expect([targetOffsets[0], targetOffsets.at(-1)]).toEqual([0, batch.targets.length]);
        expect(batch.targets).toEqual(batch.targets.toSorted());
        for (const [at, member] of members.entries()) {
          const tokens = batch.targets.slice(targetOffsets[at], targetOffsets[at + 1]).map((target) => batch.ids[target]!);
          expect(tokens).toEqual(given[member]!.targets.map((target) => 1000 * member + target));
        }
      }
    };
    fc.assert(fc.property(sequences, budgets, check));
  });

  it('stays within the budget, except for a single sequence that is longer {any sequences, any budget}', () => {
    const check = (given: Sequence[], budget: number) => {
      for (const { batch, members } of packBatches(given, budget, 1)) expect(members.length === 1 || batch.ids.length <= budget).toBe(true);
    };
    fc.assert(fc.property(sequences, budgets, check));
  });

  it('leaves no two batches that would fit into one {any sequences, any budget}', () => {
    const check = (given: Sequence[], budget: number) => {
      const sizes = packBatches(given, budget, 1).map(({ batch }) => batch.ids.length);
      const [smallest = Infinity, second = Infinity] = sizes.toSorted((a, b) => a - b);
      expect(smallest + second).toBeGreaterThan(budget);
    };
    fc.assert(fc.property(sequences, budgets, check));
  });

  it('depends on nothing but the sequences and the budget {any sequences, any budget}', () => {
    const check = (given: Sequence[], budget: number) => {
      expect(packBatches(structuredClone(given), budget, 1)).toEqual(packBatches(given, budget, 1));
    };
    fc.assert(fc.property(sequences, budgets, check));
  });

  it('makes one batch where the budget allows, and one for each sequence where it is 1', () => {
    const given = [3, 5, 2].map((length) => ({ ids: new Int32Array(length), targets: Int32Array.of(1) }));
    expect(packBatches(given, 10, 1).map(({ members }) => members)).toEqual([[1, 0, 2]]);
    expect(packBatches(given, 1, 1).map(({ members }) => members)).toEqual([[1], [0], [2]]);
    expect(packBatches([], 10, 1)).toEqual([]);
  });
});
