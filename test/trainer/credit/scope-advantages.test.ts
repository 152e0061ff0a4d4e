import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RewardError } from '../../../src/core/errors.ts';
import { decayMoments, mergeMoments, type Moments, scopeAdvantages, type ScopeConfig } from '../../../src/trainer/credit/scope-advantages.ts';

const anyMember = fc.record({ reward: fc.integer({ min: -20, max: 20 }).map((n) => n / 10), tokens: fc.integer({ min: 1, max: 6 }) });
const anyMembers = fc.array(anyMember, { minLength: 2, maxLength: 12 });
const SEQUENCE: ScopeConfig = { weighting: 'sequence', std: 'population', epsilon: 0 };
const members = (...rewards: readonly number[]) => rewards.map((reward) => ({ reward, tokens: 1 }));

/** Mean, variance and count of a plain list. */
function momentsOf(values: readonly number[]): Moments {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { count: values.length, mean, squares: values.reduce((sum, value) => sum + (value - mean) ** 2, 0) };
}

const close = ({ count, mean, squares }: Moments) => ({ count, mean: expect.closeTo(mean, 10), squares: expect.closeTo(squares, 9) });

describe('scopeAdvantages', () => {
  it('is reward minus mean over deviation: with n, with n - 1, or none', () => {
    expect([...scopeAdvantages(members(1, 0), SEQUENCE).advantages]).toEqual([1, -1]);
    expect(scopeAdvantages(members(1, 0), { ...SEQUENCE, std: 'sample' }).advantages[0]).toBeCloseTo(Math.SQRT1_2, 12);
    expect([...scopeAdvantages(members(3, 0, 0), { ...SEQUENCE, std: 'none' }).advantages]).toEqual([2, -1, -1]);
    expect(scopeAdvantages(members(1, 0), { ...SEQUENCE, epsilon: 0.5 }).advantages[0]).toBe(0.5);
  });

  it('whitens over tokens: Σ tokens · a = 0 and their variance is 1 {any scope that is not constant}', () => {
    fc.assert(
      fc.property(anyMembers, (scope) => {
        fc.pre(new Set(scope.map(({ reward }) => reward)).size > 1);
        const { advantages } = scopeAdvantages(scope, { weighting: 'token', std: 'sample', epsilon: 1 });
        const perToken = scope.flatMap(({ tokens }, i) => Array.from({ length: tokens }, () => advantages[i]!));
        const { count, mean, squares } = momentsOf(perToken);
        expect(mean).toBeCloseTo(0, 9);
        expect(squares / (count - 1)).toBeCloseTo(1, 4);
      }),
    );
  });

  it('weighs long rollouts more per token than per sequence', () => {
    const scope = [
      { reward: 1, tokens: 3 },
      { reward: 0, tokens: 1 },
    ];
    expect(scopeAdvantages(scope, SEQUENCE).moments.mean).toBe(0.5);
    expect(scopeAdvantages(scope, { ...SEQUENCE, weighting: 'token' }).moments.mean).toBe(0.75);
  });

  it('is exactly 0 where all rewards are equal, whatever their rounding, and for a single rollout', () => {
    for (const size of [1, 2, 3, 7]) {
      for (const weighting of ['sequence', 'token'] as const) {
        const scope = Array.from({ length: size }, () => ({ reward: 0.1, tokens: 3 }));
        const { advantages, isConstant, std } = scopeAdvantages(scope, { weighting, std: 'sample', epsilon: 0 });
        expect([[...advantages], isConstant, std]).toEqual([Array.from({ length: size }, () => 0), true, 0]);
      }
    }
  });

  it('compares with the moments of earlier batches too, also a single rollout', () => {
    const earlier = { count: 2, mean: 0, squares: 2 };
    const { advantages, moments, isConstant } = scopeAdvantages(members(3), SEQUENCE, earlier);
    expect(moments).toEqual({ count: 3, mean: 1, squares: 8 });
    expect(advantages[0]).toBeCloseTo(2 / Math.sqrt(8 / 3), 12);
    expect(isConstant).toBe(true);
  });

  it('stays 0 over batches of one and the same reward, also without an epsilon', () => {
    let moments: Moments | null = null;
    for (let batch = 0; batch < 5; batch++) {
      const found = scopeAdvantages(members(0.1, 0.1, 0.1), SEQUENCE, moments);
      expect([...found.advantages]).toEqual([0, 0, 0]);
      moments = decayMoments(found.moments, 0.7);
    }
  });

  it('refuses a reward that is not finite', () => {
    expect(() => scopeAdvantages(members(1, NaN), SEQUENCE)).toThrow(RewardError);
    expect(() => scopeAdvantages(members(Infinity), SEQUENCE)).toThrow('A rollout of 1 has the reward Infinity');
  });
});

describe('scopeAdvantages of rewards that are too large to be compared', () => {
  it('is 0, and leaves the moments of earlier batches as they were', () => {
    const earlier = momentsOf([1, 2, 4]);
    const { advantages, moments } = scopeAdvantages(members(1e308, 1e308, -1e308), SEQUENCE, earlier);
    expect([[...advantages], moments]).toEqual([[0, 0, 0], earlier]);
    expect(scopeAdvantages(members(1e200, 0), SEQUENCE).moments).toEqual({ count: 0, mean: 0, squares: 0 });
  });
});

describe('mergeMoments', () => {
  it('is the mean and variance of both lists {any two lists}', () => {
    const list = fc.array(
      fc.integer({ min: -100, max: 100 }).map((n) => n / 7),
      { minLength: 1, maxLength: 9 },
    );
    fc.assert(
      fc.property(list, list, (a, b) => {
        expect(mergeMoments(momentsOf(a), momentsOf(b))).toEqual(close(momentsOf([...a, ...b])));
      }),
    );
  });

  it('takes either where the other stands for nothing', () => {
    const [some, nothing] = [momentsOf([1, 2, 4]), { count: 0, mean: 0, squares: 0 }];
    expect([mergeMoments(some, nothing), mergeMoments(nothing, some)]).toEqual([some, some]);
    expect(mergeMoments(nothing, nothing)).toEqual(nothing);
  });
});

describe('decayMoments', () => {
  it('keeps mean and variance and stands for less', () => {
    const { count, mean, squares } = decayMoments({ count: 4, mean: 3, squares: 8 }, 0.25);
    expect([count, mean, squares / count]).toEqual([1, 3, 2]);
  });
});
