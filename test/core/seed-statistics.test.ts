import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { estimateOverSeeds, pairedBySeed, welch } from '../../src/core/seed-statistics.ts';
import { studentQuantile, studentTail } from '../../src/core/student-t.ts';

interface Ends {
  readonly low: number;
  readonly high: number;
}
interface Tested extends Ends {
  readonly p: number;
  readonly degrees: number;
}
interface Golden {
  readonly seeds: readonly {
    readonly name: string;
    readonly first: readonly number[];
    readonly second: readonly number[];
    readonly means: readonly [Ends & { readonly value: number }, Ends & { readonly value: number }];
    readonly paired: Tested | null;
    readonly welch: Tested;
  }[];
  readonly student: readonly (readonly [number, number, number])[];
  readonly student_quantiles: readonly (readonly [number, number, number])[];
}

/** Written by test/golden/producers/comparison.py with scipy. */
const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../golden/comparison.json'), 'utf8')) as Golden;
const cases = golden.seeds.map((each) => [each.name, each] as const);
const near = (value: number) => expect.closeTo(value, 9);

describe('studentTail', () => {
  it.each(golden.student)('is the tail of scipy beyond %d with %d degrees of freedom', (t, degrees, tail) => {
    expect(Math.abs(studentTail(t, degrees) - tail)).toBeLessThanOrEqual(1e-8 * tail + 1e-300);
  });
});

describe('studentQuantile', () => {
  it.each(golden.student_quantiles)('is the quantile %d of scipy with %d degrees of freedom', (share, degrees, quantile) => {
    expect(Math.abs(studentQuantile(share, degrees) - quantile)).toBeLessThanOrEqual(1e-8 * Math.max(1, quantile));
  });
});

describe('estimateOverSeeds', () => {
  it.each(cases)('is the t interval of scipy: %s', (_, { first, second, means }) => {
    for (const [i, values] of [first, second].entries()) {
      const { value, low, high } = means[i as 0 | 1];
      expect(estimateOverSeeds(values)).toEqual({ value: near(value), low: near(low), high: near(high), n: values.length });
    }
  });

  it('has no interval for one seed, no value for none, and no interval where seeds agree exactly', () => {
    expect(estimateOverSeeds([0.4])).toEqual({ value: 0.4, low: null, high: null, n: 1 });
    expect(estimateOverSeeds([])).toBeNull();
    expect(estimateOverSeeds([0.7, 0.7, 0.7])).toEqual({ value: near(0.7), low: null, high: null, n: 3 });
  });
});

describe('pairedBySeed', () => {
  it.each(cases.filter(([, { paired }]) => paired !== null))("is scipy's paired t test: %s", (_, { first, second, paired }) => {
    const { p, degrees, low, high } = paired!;
    expect(pairedBySeed(first, second)).toMatchObject({
      test: 'paired',
      p: near(p),
      degrees: near(degrees),
      difference: { low: near(low), high: near(high) },
    });
  });

  it('tests no single pair, and no difference that every seed has', () => {
    expect(pairedBySeed([0.1], [0.9])).toBeNull();
    expect(pairedBySeed([0.1, 0.4, 0.2], [0.2, 0.5, 0.3])).toBeNull();
  });
});

describe('welch', () => {
  it.each(cases)("is scipy's test of unequal variances: %s", (_, { first, second, welch: { p, degrees, low, high } }) => {
    expect(welch(first, second)).toMatchObject({
      test: 'welch',
      p: near(p),
      degrees: near(degrees),
      difference: { low: near(low), high: near(high) },
    });
  });

  it('tests no group of one run, and none where the seeds of each group agree exactly', () => {
    expect(welch([0.1], [0.9, 0.8])).toBeNull();
    expect(welch([1, 1], [1, 1])).toBeNull();
    expect(welch([0, 0], [1, 1])).toBeNull();
    expect(welch([0, 0], [0.4, 0.5])).toMatchObject({ difference: { value: near(0.45) } });
  });

  it('gives the opposite difference and the same p when the groups change places', () => {
    const values = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 6 });
    fc.assert(
      fc.property(values, values, (first, second) => {
        const [there, back] = [welch(first, second), welch(second, first)];
        expect(there === null).toBe(back === null);
        if (there === null || back === null) return;
        expect(back.p).toBeCloseTo(there.p, 9);
        expect(back.difference.value).toBeCloseTo(-there.difference.value, 12);
        expect(there.p).toBeGreaterThanOrEqual(0);
        expect(there.p).toBeLessThanOrEqual(1 + 1e-12);
      }),
    );
  });
});
