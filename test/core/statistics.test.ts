import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { estimate, estimateChance, estimateMean, estimateShare, passAllK, passAtK, powersOfTwo, wilson } from '../../src/core/statistics.ts';

/** Every way to draw k of n, as index lists. */
function* draws(n: number, k: number, from = 0): Generator<number[]> {
  if (k === 0) yield [];
  else for (let i = from; i <= n - k; i++) for (const rest of draws(n, k - 1, i + 1)) yield [i, ...rest];
}

const cases = fc.integer({ min: 1, max: 9 }).chain((n) => fc.tuple(fc.constant(n), fc.integer({ min: 0, max: n }), fc.integer({ min: 1, max: n })));

describe('passAtK', () => {
  it('is the share of all draws of k in which one passes', () => {
    fc.assert(
      fc.property(cases, ([n, passed, k]) => {
        const all = [...draws(n, k)];
        expect(passAtK(n, passed, k)).toBeCloseTo(all.filter((d) => d.some((i) => i < passed)).length / all.length, 12);
      }),
    );
  });

  it('agrees with the paper on a worked case', () => {
    // 1 - C(7, 2) / C(10, 2) = 1 - 21 / 45
    expect(passAtK(10, 3, 2)).toBeCloseTo(24 / 45, 14);
  });
});

describe('passAllK', () => {
  it('is the share of all draws of k in which all pass', () => {
    fc.assert(
      fc.property(cases, ([n, passed, k]) => {
        const all = [...draws(n, k)];
        expect(passAllK(n, passed, k)).toBeCloseTo(all.filter((d) => d.every((i) => i < passed)).length / all.length, 12);
      }),
    );
  });
});

describe('powersOfTwo', () => {
  it('stops at the limit', () => {
    expect([1, 3, 8].map(powersOfTwo)).toEqual([[1], [1, 2], [1, 2, 4, 8]]);
  });
});

describe('wilson', () => {
  it('gives the interval of the literature for 8 of 10', () => {
    const { low, high } = wilson(0.8, 10);
    expect([low, high].map((x) => Number(x.toFixed(4)))).toEqual([0.4902, 0.9433]);
  });

  it('ends where the score test rejects', () => {
    const { low, high } = wilson(0.3, 40);
    for (const p of [low, high]) expect(Math.abs(0.3 - p) / Math.sqrt((p * (1 - p)) / 40)).toBeCloseTo(1.959964, 5);
  });
});

describe('estimateMean', () => {
  it('is the textbook interval for one rollout per example', () => {
    // mean 8, deviation sqrt(14 / 2) = 2.6458, t(2) = 4.3027, half = 4.3027 * 2.6458 / sqrt(3) = 6.5725
    expect(estimateMean([[6], [7], [11]])).toEqual({ value: 8, low: expect.closeTo(1.4275, 3), high: expect.closeTo(14.5725, 3), n: 3 });
  });

  it('reaches below 0 only where a value does', () => {
    expect(estimateMean([[0], [0], [1]])).toMatchObject({ low: 0, high: expect.closeTo(1.7676, 3) });
    expect(estimateMean([[-0.5], [0], [1]])!.low).toBeLessThan(-0.5);
  });

  it('does not shrink when every rollout is written twice', () => {
    const once = estimateMean([[0.1], [0.5], [0.3], [0.9]])!;
    const twice = estimateMean([
      [0.1, 0.1],
      [0.5, 0.5],
      [0.3, 0.3],
      [0.9, 0.9],
    ])!;
    expect(twice).toEqual({ value: expect.closeTo(once.value, 12), low: expect.closeTo(once.low!, 12), high: expect.closeTo(once.high!, 12), n: 8 });
  });

  it('claims no interval from one example', () => {
    expect(estimateMean([[1, 2, 3]])).toEqual({ value: 2, low: null, high: null, n: 3 });
    expect(estimateMean([[0.1], [0.1], [0.1]])).toEqual({ value: expect.closeTo(0.1, 12), low: null, high: null, n: 3 });
    expect(
      estimateMean([
        [1, 3],
        [3, 1],
      ]),
    ).toMatchObject({ low: null, high: null });
  });

  it('gives no estimate without values', () => {
    expect(estimateMean([[], []])).toBeNull();
  });
});

describe('estimateShare', () => {
  it('is as wide for copies of the same rollouts as for the rollouts themselves', () => {
    const values = [1, 0, 1, 1, 0, 1, 0, 1, 1, 1];
    const once = estimateShare(values.map((v) => [v]))!;
    const copied = estimateShare(values.map((v) => [v, v, v, v]))!;
    // The design effect uses G / (G - 1), so the copies are a little wider, never narrower.
    expect(copied.high! - copied.low!).toBeGreaterThanOrEqual(once.high! - once.low!);
    expect(copied.high! - copied.low!).toBeLessThan((once.high! - once.low!) * 1.1);
  });

  it('stays an interval within 0 and 1 around the share {any 0/1 values}', () => {
    const values = fc.array(fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 4 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(values, (byExample) => {
        const got = estimate(byExample);
        if (got === null) return;
        expect(got.low).toBeGreaterThanOrEqual(0);
        expect(got.high).toBeLessThanOrEqual(1);
        expect(got.low).toBeLessThanOrEqual(got.value);
        expect(got.high).toBeGreaterThanOrEqual(got.value);
      }),
    );
  });

  it('covers the truth about 19 times in 20, with rollouts of one example alike', () => {
    const random = Random.fromSeed(5);
    const difficulties = [0.05, 0.2, 0.35, 0.6, 0.8];
    const truth = 0.4;
    let [share, mean, naive] = [0, 0, 0];
    const runs = 1500;
    for (let run = 0; run < runs; run++) {
      const values = Array.from({ length: 50 }, () => {
        const p = difficulties[random.integer(difficulties.length)]!;
        return Array.from({ length: 4 }, () => Number(random.float() < p));
      });
      const covers = ({ low, high }: { low: number | null; high: number | null }) => Number(low! <= truth && truth <= high!);
      const got = estimateShare(values)!;
      share += covers(got);
      mean += covers(estimateMean(values)!);
      naive += covers(wilson(got.value, 200));
    }
    expect(share / runs).toBeGreaterThan(0.93);
    expect(share / runs).toBeLessThan(0.975);
    expect(mean / runs).toBeGreaterThan(0.93);
    expect(mean / runs).toBeLessThan(0.975);
    // What the clustering is for: taking rollouts as independent is overconfident here.
    expect(naive / runs).toBeLessThan(0.9);
  });
});

describe('estimate', () => {
  it('treats 0 and 1 as a share and anything else as a mean', () => {
    expect(estimate([[1], [0]])).toEqual(estimateShare([[1], [0]]));
    expect(estimate([[1], [0.5]])).toEqual(estimateMean([[1], [0.5]]));
  });
});

describe('estimateChance', () => {
  it('gives pass@1 of equally many rollouts the interval of the share itself', () => {
    const values = [
      [1, 0, 0],
      [1, 1, 1],
      [0, 0, 0],
      [0, 1, 1],
    ];
    const share = estimateShare(values)!;
    const chance = estimateChance(
      values.map((v) => v.filter((x) => x === 1).length / 3),
      12,
    )!;
    expect([chance.low, chance.high]).toEqual([expect.closeTo(share.low!, 12), expect.closeTo(share.high!, 12)]);
    expect(chance.n).toBe(4);
  });

  it('does not mistake unanimous examples for certainty', () => {
    expect(estimateChance([1, 1, 1], 12)).toEqual({ value: 1, ...wilson(1, 3), n: 3 });
  });

  it('covers the true pass@2 about 19 times in 20', () => {
    const random = Random.fromSeed(9);
    const difficulties = [0.02, 0.1, 0.2, 0.3, 0.5];
    const truth = difficulties.reduce((sum, p) => sum + 1 - (1 - p) ** 2, 0) / difficulties.length;
    const runs = 1500;
    let covered = 0;
    for (let run = 0; run < runs; run++) {
      const chances = Array.from({ length: 40 }, () => {
        const p = difficulties[random.integer(difficulties.length)]!;
        return passAtK(4, [0, 0, 0, 0].filter(() => random.float() < p).length, 2);
      });
      const { low, high } = estimateChance(chances, 160)!;
      covered += Number(low! <= truth && truth <= high!);
    }
    expect(covered / runs).toBeGreaterThan(0.93);
    expect(covered / runs).toBeLessThan(0.975);
  });
});
