import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pairedDifference } from '../../../scripts/real-model/paired-difference.ts';
import { Random } from '../../../src/core/random.ts';

const byRow = (values: readonly number[]) => new Map(values.map((value, i) => [`row ${i}`, value]));

describe('pairedDifference', () => {
  it('pairs by row, whatever the order, and leaves out rows that one side lacks', () => {
    const before = new Map([
      ['a', 0],
      ['b', 1],
      ['c', 1],
      ['only before', 1],
    ]);
    const after = new Map([
      ['only after', 0],
      ['c', 0],
      ['b', 1],
      ['a', 1],
    ]);
    expect(pairedDifference(before, after)).toMatchObject({ value: 0, rows: 3, gained: 1, lost: 1 });
    expect(pairedDifference(before, after)).toEqual(pairedDifference(new Map([...before].toReversed()), after));
    expect(pairedDifference(before, new Map())).toBeNull();
  });

  it('agrees with the normal interval on many rows', () => {
    const random = Random.fromSeed(3);
    const differences = Array.from({ length: 500 }, () => (random.float() < 0.25 ? 1 : random.float() < 0.2 ? -1 : 0));
    const mean = differences.reduce<number>((sum, x) => sum + x, 0) / 500;
    const half = 1.96 * Math.sqrt(differences.reduce<number>((sum, x) => sum + (x - mean) ** 2, 0) / 499 / 500);
    const found = pairedDifference(byRow(differences.map(() => 0)), byRow(differences))!;
    expect(found.value).toBeCloseTo(mean, 12);
    expect(Math.abs(found.low - (mean - half))).toBeLessThan(0.006);
    expect(Math.abs(found.high - (mean + half))).toBeLessThan(0.006);
  });

  it('covers the true difference of small samples about as often as it claims', () => {
    const random = Random.fromSeed(1);
    let covered = 0;
    for (let trial = 0; trial < 100; trial++) {
      const draw = (chance: number) => byRow(Array.from({ length: 60 }, () => (random.float() < chance ? 1 : 0)));
      const { low, high } = pairedDifference(draw(0.3), draw(0.5), { seed: trial, resamples: 1000 })!;
      if (low <= 0.2 && 0.2 <= high) covered += 1;
    }
    expect(covered).toBeGreaterThanOrEqual(86);
  });

  it('{ the interval holds the value and turns with the sides }', () => {
    const values = fc.array(fc.tuple(fc.constantFrom(0, 1), fc.constantFrom(0, 1)), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(values, (pairs) => {
        const [before, after] = [byRow(pairs.map(([x]) => x)), byRow(pairs.map(([, y]) => y))];
        const found = pairedDifference(before, after)!;
        expect(found.low).toBeLessThanOrEqual(found.value + 1e-12);
        expect(found.high).toBeGreaterThanOrEqual(found.value - 1e-12);
        expect(pairedDifference(after, before)!.value).toBeCloseTo(-found.value, 12);
      }),
      { numRuns: 20 },
    );
  });
});
