import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../../src/core/random.ts';

describe('Random', () => {
  it('gives the same stream for the same seed, on any machine', () => {
    const draws = (seed: number) => {
      const random = Random.fromSeed(seed);
      return Array.from({ length: 4 }, () => random.uint32());
    };
    expect(draws(0)).toEqual(draws(0));
    expect(draws(0)).not.toEqual(draws(1));
    // Pinned: a change here changes every seeded run of every user.
    expect(draws(42)).toEqual([660444221, 3652823732, 77672526, 910233633]);
  });

  it('gives negative and fractional seeds streams of their own {any two seeds}', () => {
    const draws = (seed: number) => {
      const random = Random.fromSeed(seed);
      return Array.from({ length: 4 }, () => random.uint32()).join();
    };
    for (const [a, b] of [
      [-1, 0],
      [-1, -2],
      [0.5, 0],
      [0.5, -0.5],
      [1.5, 1],
      [-1, 2 ** 32 - 1],
    ] as const)
      expect(draws(a)).not.toBe(draws(b));
    const seed = fc.oneof(
      fc.integer({ max: -1 }),
      fc.double({ noNaN: true, noDefaultInfinity: true }).filter((x) => x < 0 || !Number.isInteger(x)),
    );
    fc.assert(
      fc.property(seed, fc.nat(), (odd, whole) => {
        expect(draws(odd)).toBe(draws(odd));
        expect(draws(odd)).not.toBe(draws(whole));
      }),
    );
    for (const none of [NaN, Infinity]) expect(() => Random.fromSeed(none)).toThrow(RangeError);
  });

  it('forks streams that depend on the key alone, not on what was drawn elsewhere', () => {
    const a = Random.fromSeed(3).fork('row/0');
    const b = Random.fromSeed(3).fork('row/0');
    const c = Random.fromSeed(3).fork('row/1');
    const first = a.float();
    expect(b.float()).toBe(first);
    expect(c.float()).not.toBe(first);
  });

  it('draws floats evenly over [0, 1)', () => {
    const random = Random.fromSeed(5);
    const bins = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 100_000; i++) bins[Math.floor(random.float() * 10)]! += 1;
    // Chi-square with 9 degrees of freedom: 33.7 is exceeded once in 10,000 seeds, and the seed is fixed.
    const chi2 = bins.reduce((sum, n) => sum + (n - 10_000) ** 2 / 10_000, 0);
    expect(chi2).toBeLessThan(33.7);
  });

  it.each([0, -1, 1.5, NaN, Infinity, 2 ** 32 + 1])('refuses to draw below %s', (n) => {
    expect(() => Random.fromSeed(0).integer(n)).toThrow(RangeError);
  });

  it('draws every integer below n and none above', () => {
    const random = Random.fromSeed(9);
    const seen = new Set(Array.from({ length: 1000 }, () => random.integer(7)));
    expect([...seen].toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  it('shuffles to a permutation and leaves the input alone', () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), fc.integer(), (items, seed) => {
        const before = [...items];
        const shuffled = Random.fromSeed(seed).shuffle(items);
        expect(items).toEqual(before);
        expect(shuffled.toSorted((a, b) => a - b)).toEqual(before.toSorted((a, b) => a - b));
      }),
    );
  });

  it('reaches every order of three items equally often', () => {
    const random = Random.fromSeed(11);
    const counts = new Map<string, number>();
    for (let i = 0; i < 6000; i++) {
      const order = random.shuffle(['a', 'b', 'c']).join('');
      counts.set(order, (counts.get(order) ?? 0) + 1);
    }
    expect(counts.size).toBe(6);
    for (const n of counts.values()) expect(Math.abs(n - 1000)).toBeLessThan(150);
  });
});
