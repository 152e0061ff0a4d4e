import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RewardError } from '../../../src/core/errors.ts';
import { type AdvantageConfig, groupAdvantages } from '../../../src/trainer/credit/group-advantages.ts';

const anyConfig: fc.Arbitrary<AdvantageConfig> = fc.record({
  baseline: fc.constantFrom('mean' as const, 'leave_one_out' as const),
  std: fc.constantFrom('sample' as const, 'population' as const, 'none' as const),
  epsilon: fc.constantFrom(1e-6, 1e-4),
  singleton: fc.constantFrom('raw' as const, 'zero' as const),
});
const anyGroup = fc.array(
  fc.integer({ min: -20, max: 20 }).map((n) => n / 10),
  { minLength: 2, maxLength: 16 },
);
const upstream: AdvantageConfig = { baseline: 'mean', std: 'sample', epsilon: 1e-6, singleton: 'raw' };

describe('groupAdvantages', () => {
  it('sums to 0 in every group {sum(a) = 0}', () => {
    fc.assert(
      fc.property(anyConfig, anyGroup, (config, rewards) => {
        const { advantages } = groupAdvantages(rewards, config);
        expect(advantages.reduce((sum, a) => sum + a, 0)).toBeCloseTo(0, 9);
      }),
    );
  });

  it('is 0 where rewards are too large to be compared, never NaN', () => {
    for (const std of ['sample', 'none'] as const)
      for (const rewards of [
        [1e308, 1e308, -1e308],
        [1e308, 1e308, 0],
        [1e200, 0],
      ]) {
        const { advantages, mean, isConstant } = groupAdvantages(rewards, { ...upstream, std });
        expect([...advantages, isConstant]).toEqual([...rewards.map(() => 0), false]);
        expect(mean).toSatisfy(Number.isFinite);
      }
  });

  it('ignores a constant added to all rewards {a(r + c) = a(r)}', () => {
    fc.assert(
      fc.property(anyConfig, anyGroup, fc.integer({ min: -8, max: 8 }), (config, rewards, shift) => {
        const moved = groupAdvantages(
          rewards.map((r) => r + shift),
          config,
        ).advantages;
        groupAdvantages(rewards, config).advantages.forEach((a, i) => expect(Math.abs(moved[i]! - a)).toBeLessThan(1e-7));
      }),
    );
  });

  it('follows a permutation of the members {a(p(r)) = p(a(r))}', () => {
    fc.assert(
      fc.property(anyConfig, anyGroup, fc.nat(), (config, rewards, turn) => {
        const rotate = <T>(list: T[]) => [...list.slice(turn % list.length), ...list.slice(0, turn % list.length)];
        const rotated = groupAdvantages(rotate(rewards), config).advantages;
        rotate([...groupAdvantages(rewards, config).advantages]).forEach((a, i) => expect(rotated[i]).toBeCloseTo(a, 9));
      }),
    );
  });

  it('is exactly 0 where all rewards are equal, whatever their rounding', () => {
    for (const size of [2, 3, 5, 7, 16]) {
      const { advantages, isConstant, std } = groupAdvantages(
        Array.from({ length: size }, () => 0.1),
        upstream,
      );
      expect({ advantages: [...advantages], isConstant, std }).toEqual({
        advantages: Array.from({ length: size }, () => 0),
        isConstant: true,
        std: 0,
      });
    }
    expect(groupAdvantages([0.1, 0.2], upstream).isConstant).toBe(false);
  });

  it('gives a group of one its reward, or 0', () => {
    expect(groupAdvantages([0.7], upstream).advantages[0]).toBeCloseTo(0.7 / (1 + 1e-6), 15);
    expect(groupAdvantages([0.7], { ...upstream, std: 'none' }).advantages[0]).toBe(0.7);
    expect(groupAdvantages([0.7], { ...upstream, baseline: 'leave_one_out', singleton: 'zero' }).advantages[0]).toBe(0);
  });

  it('distinguishes the deviations with n - 1 and n, and leaves one member out', () => {
    expect(groupAdvantages([1, 0], { ...upstream, epsilon: 0 }).advantages[0]).toBeCloseTo(Math.SQRT1_2, 15);
    expect(groupAdvantages([1, 0], { ...upstream, std: 'population', epsilon: 0 }).advantages[0]).toBe(1);
    expect([...groupAdvantages([3, 0, 0], { ...upstream, baseline: 'leave_one_out', std: 'none' }).advantages]).toEqual([3, -1.5, -1.5]);
  });

  it('refuses a reward that is not a finite number, and an empty group', () => {
    expect(() => groupAdvantages([1, NaN], upstream)).toThrow(RewardError);
    expect(() => groupAdvantages([Infinity], upstream)).toThrow('Member 0 of a group of 1 has the reward Infinity');
    expect(() => groupAdvantages([], upstream)).toThrow('The group has no rewards');
  });
});
