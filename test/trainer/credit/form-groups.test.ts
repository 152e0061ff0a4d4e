import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formGroups } from '../../../src/trainer/credit/form-groups.ts';
import type { Trajectory } from '../../../src/trainer/sources/trajectory.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';

const FAILURE = { reward: null, error: { type: 'PolicyError', message: 'refused', retryable: true, source: 'policy' as const } };

/** `a: [1, 0, null]` becomes a/0 with reward 1, a/1 with 0 and a/2 that failed. */
function rollouts(groups: Readonly<Record<string, readonly (number | null)[]>>): Trajectory[] {
  return Object.entries(groups).flatMap(([name, rewards]) =>
    rewards.map((reward, i) => trajectory(`${name}/${i}`, reward === null ? FAILURE : { reward })),
  );
}

const config = (algorithm: object = {}, rest: object = {}) => someConfig({ algorithm, rollouts: rest });
/** Population deviation and no epsilon: rewards 0 and 1 give advantages of exactly -1 and 1. */
const PLAIN = { advantage: { std: 'population', epsilon: 0 } };

function advantages(formed: ReturnType<typeof formGroups>): Record<string, number> {
  return Object.fromEntries(formed.groups.flat().map(({ trajectory: { rolloutId }, advantage }) => [rolloutId, advantage]));
}

describe('formGroups', () => {
  it('compares the members of a row with each other, and with no others', () => {
    const formed = formGroups(rollouts({ a: [1, 0], b: [5, 9, 5, 9] }), config(PLAIN));
    expect(advantages(formed)).toEqual({ 'a/0': 1, 'a/1': -1, 'b/0': -1, 'b/1': 1, 'b/2': -1, 'b/3': 1 });
    expect(formed.groups.map((group) => group.length)).toEqual([2, 4]);
    expect(formed).toMatchObject({ tooSmall: 0, constant: 0, meanStd: (0.5 + 2) / 2 });
  });

  it('takes the deviation with n - 1 and epsilon where the configuration says so', () => {
    const formed = formGroups(rollouts({ a: [1, 0, 0] }), config({ advantage: { std: 'sample', epsilon: 0.5 } }));
    const std = Math.sqrt((4 / 9 + 1 / 9 + 1 / 9) / 2);
    expect(formed.meanStd).toBeCloseTo(std, 12);
    expect(advantages(formed)['a/0']).toBeCloseTo(2 / 3 / (std + 0.5), 12);
  });

  it('leaves a failed rollout out of its group, as if it had never existed', () => {
    const formed = formGroups(rollouts({ a: [1, null, 0] }), config(PLAIN));
    expect(advantages(formed)).toEqual({ 'a/0': 1, 'a/2': -1 });
  });

  it('drops and counts groups with fewer than two finished rollouts', () => {
    const formed = formGroups(rollouts({ a: [1, null, null], b: [null, null], c: [1, 0] }), config(PLAIN));
    expect(formed).toMatchObject({ tooSmall: 2, constant: 0 });
    expect(Object.keys(advantages(formed))).toEqual(['c/0', 'c/1']);
  });

  it('has nothing to train on, and no deviation, where all rollouts failed', () => {
    expect(formGroups(rollouts({ a: [null, null], b: [null] }), config())).toEqual({ groups: [], tooSmall: 2, constant: 0, meanStd: null });
  });

  it('drops or keeps constant groups, and counts them either way', () => {
    const given = rollouts({ a: [1, 1, 1], b: [0, 1] });
    const dropped = formGroups(given, config({ ...PLAIN, constant_groups: 'drop' }));
    expect(dropped).toMatchObject({ constant: 1, tooSmall: 0, meanStd: 0.25 });
    expect(Object.keys(advantages(dropped))).toEqual(['b/0', 'b/1']);
    const kept = formGroups(given, config({ ...PLAIN, constant_groups: 'keep' }));
    expect(kept).toMatchObject({ constant: 1, meanStd: 0.25 });
    expect(advantages(kept)).toEqual({ 'a/0': 0, 'a/1': 0, 'a/2': 0, 'b/0': -1, 'b/1': 1 });
  });

  it('counts a truncated rollout in its group, and masks its tokens where they are not to be trained', () => {
    const given = [trajectory('a/0', { reward: 1, isTruncated: true }), trajectory('a/1', { reward: 0 })];
    const [trained] = formGroups(given, config(PLAIN, { truncated: 'train' })).groups;
    const [masked] = formGroups(given, config(PLAIN, { truncated: 'mask' })).groups;
    expect(masked!.map(({ advantage }) => advantage)).toEqual(trained!.map(({ advantage }) => advantage));
    expect(trained!.map(({ targets }) => targets.length)).toEqual([2, 2]);
    expect(masked!.map(({ targets, logProbs }) => [targets.length, logProbs.length])).toEqual([
      [0, 0],
      [2, 2],
    ]);
  });

  it('negates every advantage for the control', () => {
    const given = rollouts({ a: [1, 0, 0, 0.5], b: [3, 1] });
    const [plain, negated] = [false, true].map((negate) => advantages(formGroups(given, config({ negate_advantages: negate }))));
    expect(Object.keys(negated!)).toEqual(Object.keys(plain!));
    for (const [id, advantage] of Object.entries(plain!)) expect(negated![id]).toBe(-advantage);
  });

  it('subtracts the penalty from each reward before they are compared, and asks none for a failed rollout', () => {
    const asked: string[] = [];
    const penalty = ({ rolloutId }: Trajectory) => {
      asked.push(rolloutId);
      return rolloutId === 'a/0' ? 3 : 0;
    };
    const formed = formGroups(rollouts({ a: [2, 1, null] }), config(PLAIN), penalty);
    expect(advantages(formed)).toEqual({ 'a/0': -1, 'a/1': 1 });
    expect(asked.toSorted()).toEqual(['a/0', 'a/1']);
  });

  it('does not depend on the order within a group {any order of arrival}', () => {
    const given = rollouts({ a: [1, 0, 0.25, null, 0.125], b: [0.1, 0.7, 0.2] });
    const expected = formGroups(given, config());
    const check = (keys: readonly number[]) => {
      const order = (name: string) => given.filter(({ groupId }) => groupId === name).toSorted((x, y) => keys[x.index]! - keys[y.index]!);
      expect(formGroups([...order('a'), ...order('b')], config())).toEqual(expected);
    };
    fc.assert(fc.property(fc.array(fc.integer(), { minLength: 5, maxLength: 5 }), check));
  });
});
