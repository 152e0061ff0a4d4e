import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { chiSquareTail, normalCdf, normalQuantile } from '../../src/core/normal-distribution.ts';
import { estimateDifferences, exchangeTest, holm } from '../../src/core/paired-statistics.ts';
import { Random } from '../../src/core/random.ts';
import type { ByExample } from '../../src/core/statistics.ts';

interface Golden {
  readonly cases: readonly {
    readonly name: string;
    readonly rows: readonly (readonly (readonly [number, number])[])[];
    readonly interval: { readonly value: number; readonly low: number; readonly high: number; readonly se: number };
    readonly test: { readonly gained: number; readonly lost: number; readonly exact: number; readonly approximate: number } | null;
  }[];
  readonly holm: { readonly ps: readonly number[]; readonly adjusted: readonly number[] };
  readonly normal: readonly (readonly [number, number])[];
  readonly quantiles: readonly (readonly [number, number])[];
  readonly tails: readonly (readonly [number, number])[];
}

/** Written by test/golden/producers/comparison.py with scipy and statsmodels. */
const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../golden/comparison.json'), 'utf8')) as Golden;

const differences = (rows: Golden['cases'][number]['rows']): ByExample => rows.map((row) => row.map(([a, b]) => b - a));
const estimated = (values: ByExample, seed = 0, resamples = 2000) => estimateDifferences([values], { random: Random.fromSeed(seed), resamples })[0]!;

describe('estimateDifferences', () => {
  it.each(golden.cases.map((each) => [each.name, each] as const))('agrees with the BCa bootstrap of scipy: %s', (_, { rows, interval, test }) => {
    const isBinary = test !== null;
    const found = estimated(differences(rows), 3, 20_000);
    expect(found.value).toBeCloseTo(interval.value, 12);
    // The ends of two seeds differ by up to some hundredths of a standard error, or by one step of the mean where values are 0 or 1.
    const most = Math.max(0.08 * interval.se, isBinary ? 1.01 / rows.flat().length : 0);
    expect(Math.abs(found.low! - interval.low)).toBeLessThan(most);
    expect(Math.abs(found.high! - interval.high)).toBeLessThan(most);
  });

  it('gives the same interval for the same seed, and for several quantities the interval of each alone', () => {
    const values = differences(golden.cases[0]!.rows);
    const half = values.map((row) => row.map((d) => d / 2));
    expect(estimated(values, 1)).toEqual(estimated(values, 1));
    expect(estimated(values, 1)).not.toEqual(estimated(values, 2));
    expect(estimateDifferences([half, values], { random: Random.fromSeed(1), resamples: 2000 })).toEqual([estimated(half, 1), estimated(values, 1)]);
  });

  it('holds finite numbers in order around the mean, or no interval at all', () => {
    const row = fc.array(fc.constantFrom<number[]>(-1, -0.3, 0, 0.1, 0.7, 1), { maxLength: 4 });
    fc.assert(
      fc.property(fc.array(row, { maxLength: 8 }), (values) => {
        const [found] = estimateDifferences([values], { random: Random.fromSeed(0), resamples: 200 });
        const all = values.flat();
        const rows = values.filter((v) => v.length > 0).length;
        const mean = all.reduce((a, b) => a + b, 0) / Math.max(1, all.length);
        const { low, high, value, n } = found ?? { low: null, high: null, value: 0, n: 0 };
        expect(value).toBeCloseTo(mean, 12);
        expect([n, found === null]).toEqual([all.length, all.length === 0]);
        expect([low, high].map((end) => Number.isFinite(end))).toEqual(rows > 1 && low !== null ? [true, true] : [false, false]);
        expect(low === null || low < high!).toBe(true);
        expect(low ?? 0).toBeLessThanOrEqual(high ?? 0);
      }),
    );
  });

  it.each([
    ['nothing differs', 0],
    ['all differ alike', 0.3],
  ])('has no interval where %s', (_, d) => {
    expect(estimated(Array.from({ length: 7 }, () => [d, d, d]))).toEqual({
      value: expect.closeTo(d, 12),
      low: null,
      high: null,
      n: 21,
    });
  });

  it('covers the true difference in 92 to 98 % of repeated experiments, although rollouts of a row resemble each other', () => {
    const random = Random.fromSeed(5);
    let covered = 0;
    for (let i = 0; i < 400; i++) {
      const values = Array.from({ length: 40 }, () => {
        const shift = random.float() < 0.5 ? 0.8 : 0.4;
        return Array.from({ length: 4 }, () => Number(random.float() < shift) - Number(random.float() < shift - 0.2));
      });
      const { low, high } = estimated(values, i, 500);
      if (low! <= 0.2 && 0.2 <= high!) covered += 1;
    }
    expect(covered / 400).toBeGreaterThan(0.92);
    expect(covered / 400).toBeLessThan(0.98);
  });
});

describe('exchangeTest', () => {
  const tested = golden.cases.filter((each) => each.test !== null).map((each) => [each.name, each] as const);

  it.each(tested)("agrees with McNemar's test of statsmodels, and with all exchanges of rows: %s", (_, { rows, test }) => {
    const values = differences(rows);
    const { exact, approximate, ...counts } = test!;
    expect(exchangeTest(values)).toEqual({ ...counts, p: expect.closeTo(exact, 12), isExact: true });
    expect(exchangeTest(values, { mostSteps: 0 })).toEqual({ ...counts, p: expect.closeTo(approximate, 12), isExact: false });
  });

  it('finds nothing where no row differs, and where there is no row', () => {
    for (const values of [[], [[]], [[0, 0], [0]], [[1, -1]]]) expect(exchangeTest(values).p).toBe(1);
  });

  it('finds a difference in at most 5 % of experiments without one, although rollouts of a row resemble each other', () => {
    const random = Random.fromSeed(8);
    let found = 0;
    for (let i = 0; i < 1000; i++) {
      const values = Array.from({ length: 25 }, () => {
        // Each run is consistent within a row, so eight pairs say hardly more than one.
        const [a, b] = [random.float() < 0.5 ? 0.95 : 0.05, random.float() < 0.5 ? 0.95 : 0.05];
        return Array.from({ length: 8 }, () => Number(random.float() < b) - Number(random.float() < a));
      });
      if (exchangeTest(values).p < 0.05) found += 1;
    }
    expect(found / 1000).toBeLessThan(0.065);
    expect(found / 1000).toBeGreaterThan(0.02);
  });
});

describe('holm', () => {
  it('agrees with statsmodels', () => {
    expect(holm(golden.holm.ps)).toEqual(golden.holm.adjusted.map((p) => expect.closeTo(p, 12) as number));
    expect(holm([])).toEqual([]);
  });
});

describe('the normal distribution', () => {
  it('agrees with scipy', () => {
    for (const [z, p] of golden.normal) expect(normalCdf(z) / p).toBeCloseTo(1, 12);
    for (const [p, z] of golden.quantiles) expect(normalQuantile(p)).toBeCloseTo(z, 9);
    for (const [x, p] of golden.tails) expect(chiSquareTail(x) / p).toBeCloseTo(1, 12);
    expect([normalQuantile(0), normalQuantile(1)]).toEqual([-Infinity, Infinity]);
  });
});
