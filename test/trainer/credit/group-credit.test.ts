import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RewardError } from '../../../src/core/errors.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';
import { advantageOf, credits, passOver, PLAIN, rollouts, row, spoken, TableBackend } from './credit-cases.ts';

const credited = (given: readonly Trajectory[], algorithm: object = {}, rest: object = {}, backend?: TableBackend) =>
  credits(someConfig({ algorithm, rollouts: rest })).assign(given, passOver(backend));
const plain = (given: readonly Trajectory[], algorithm: object = {}) => credited(given, { advantage: PLAIN, ...algorithm });

describe('GroupCredit', () => {
  it('compares the members of a row with each other, and with no others', async () => {
    const batch = await plain(rollouts({ a: [1, 0], b: [5, 9, 5, 9] }));
    expect(advantageOf(batch)).toEqual({ 'a/0': 1, 'a/1': -1, 'b/0': -1, 'b/1': 1, 'b/2': -1, 'b/3': 1 });
    expect(batch.groups.map((group) => group.length)).toEqual([2, 4]);
    expect(batch.values).toEqual({ groups: 2, groups_too_small: 0, groups_constant: 0, sequences_dropped: 0, group_reward_std: (0.5 + 2) / 2 });
  });

  it('credits every token of a rollout alike, with its targets and the sampler’s log-probs', async () => {
    const first = (await plain(rollouts({ a: [1, 0] }))).groups[0]![0]!;
    expect([[...first.advantages], [...first.targets], [...first.logProbs!], first.isDemonstration]).toEqual([[1, 1], [2, 3], [-0.1, -1 / 3], false]);
  });

  it('takes the deviation with n - 1 and epsilon where the configuration says so', async () => {
    const batch = await credited(rollouts({ a: [1, 0, 0] }), { advantage: { std: 'sample', epsilon: 0.5 } });
    const std = Math.sqrt((4 / 9 + 1 / 9 + 1 / 9) / 2);
    expect(batch.values['group_reward_std']).toBeCloseTo(std, 12);
    expect(advantageOf(batch)['a/0']).toBeCloseTo(2 / 3 / (std + 0.5), 12);
  });

  it('leaves a failed rollout out of its group, as if it had never existed', async () => {
    expect(advantageOf(await plain(rollouts({ a: [1, null, 0] })))).toEqual({ 'a/0': 1, 'a/2': -1 });
  });

  it('drops and counts groups with fewer than two finished rollouts', async () => {
    const batch = await plain(rollouts({ a: [1, null, null], b: [null, null], c: [1, 0] }));
    expect(batch.values).toMatchObject({ groups: 1, groups_too_small: 2, groups_constant: 0 });
    expect(Object.keys(advantageOf(batch))).toEqual(['c/0', 'c/1']);
  });

  it('has nothing to train on, and no deviation, where all rollouts failed', async () => {
    expect(await credited(rollouts({ a: [null, null], b: [null] }))).toEqual({
      groups: [],
      values: { groups: 0, groups_too_small: 2, groups_constant: 0, sequences_dropped: 0, group_reward_std: null },
      constantReason: 'no group has two finished rollouts with different rewards',
    });
  });

  it('drops or keeps constant groups, and counts them either way', async () => {
    const given = rollouts({ a: [1, 1, 1], b: [0, 1] });
    const dropped = await plain(given, { constant_groups: 'drop' });
    expect(dropped.values).toMatchObject({ groups: 2, groups_constant: 1, groups_too_small: 0, group_reward_std: 0.25 });
    expect(Object.keys(advantageOf(dropped))).toEqual(['b/0', 'b/1']);
    const kept = await plain(given, { constant_groups: 'keep' });
    expect(kept.values).toEqual(dropped.values);
    expect(advantageOf(kept)).toEqual({ 'a/0': 0, 'a/1': 0, 'a/2': 0, 'b/0': -1, 'b/1': 1 });
  });

  it('counts a truncated rollout in its group, and masks its tokens where they are not to be trained', async () => {
    const given = [trajectory('a/0', { reward: 1, isTruncated: true }), trajectory('a/1', { reward: 0 })];
    const of = async (truncated: string) => (await credited(given, { advantage: PLAIN }, { truncated })).groups[0]!;
    const lengths = (group: Awaited<ReturnType<typeof of>>) => group.map((own) => [own.targets.length, own.advantages.length, own.logProbs!.length]);
    expect(lengths(await of('train'))).toEqual([
      [2, 2, 2],
      [2, 2, 2],
    ]);
    const masked = await of('mask');
    expect(lengths(masked)).toEqual([
      [0, 0, 0],
      [2, 2, 2],
    ]);
    expect([...masked[1]!.advantages]).toEqual([-1, -1]);
  });

  it('negates every advantage for the control', async () => {
    const given = rollouts({ a: [1, 0, 0, 0.5], b: [3, 1] });
    const [usual, negated] = await Promise.all(
      [false, true].map(async (negate) => advantageOf(await credited(given, { negate_advantages: negate }))),
    );
    expect(Object.keys(negated!)).toEqual(Object.keys(usual!));
    for (const [id, advantage] of Object.entries(usual!)) expect(negated![id]).toBe(-advantage!);
  });

  it('multiplies the advantages of a stale rollout by its weight, after the comparison', async () => {
    const given = rollouts({ a: [1, 0] }).map((each, i) => (i === 0 ? { ...each, staleWeight: 0.5 } : each));
    expect(advantageOf(await plain(given))).toEqual({ 'a/0': 0.5, 'a/1': -1 });
  });

  it('subtracts the sum of a rollout’s penalties from its reward before the comparison, and asks none for a failed rollout', async () => {
    const backend = new TableBackend({ initial: { 1: -3, 2: -1 } });
    // Penalties 1 · ((-1 + 3) + (-1 + 1)) = 2 and 0: the rewards 2 and 1 become 0 and 1.
    const given = [spoken('a/0', 2, [[1, -1], null, [2, -1]]), spoken('a/1', 1, [[2, -1]]), ...rollouts({ b: [null] })];
    const kl = { coefficient: 1, placement: 'reward', estimator: 'k1' };
    expect(advantageOf(await credited(given, { advantage: PLAIN, kl }, {}, backend))).toEqual({ 'a/0': -1, 'a/1': 1 });
    expect(backend.forwarded.flatMap(({ offsets }) => [...offsets])).toEqual([0, 4, 6]);
  });

  it('leaves a rollout whose penalty is not a number out of its group, and counts it', async () => {
    const kl = { coefficient: 1, placement: 'reward', estimator: 'k1' };
    const given = [spoken('a/0', 9, [[3, -1]]), spoken('a/1', 1, [[2, -1]]), spoken('a/2', 0, [[2, -1]])];
    const batch = await credited(given, { advantage: PLAIN, kl }, {}, new TableBackend({ initial: { 3: NaN } }));
    expect(advantageOf(batch)).toEqual({ 'a/1': 1, 'a/2': -1 });
    expect(batch.values['sequences_dropped']).toBe(1);
  });

  it('passes demonstrations through: each is a group, its weights are its advantages', async () => {
    const batch = await plain([...rollouts({ a: [1, 0] }), row('s/0'), row('s/1', Float64Array.of(0.5, 2))], { negate_advantages: true });
    expect(batch.groups.map((group) => group.map(({ isDemonstration }) => isDemonstration))).toEqual([[false, false], [true], [true]]);
    expect(batch.groups.slice(1).map(([own]) => [...own!.advantages])).toEqual([
      [1, 1],
      [0.5, 2],
    ]);
    expect(batch.groups[1]![0]!.logProbs).toBeNull();
    expect(batch.values).toMatchObject({ groups: 1, groups_too_small: 0 });
    expect((await plain([row('s/0')])).values).toEqual({});
  });

  it('refuses a reward that is not a finite number', async () => {
    await expect(plain(rollouts({ a: [1, NaN] }))).rejects.toThrow(RewardError);
  });

  it('does not depend on the order within a group {any order of arrival}', async () => {
    const given = rollouts({ a: [1, 0, 0.25, null, 0.125], b: [0.1, 0.7, 0.2] });
    const expected = await credited(given);
    const check = async (keys: readonly number[]) => {
      const order = (name: string) => given.filter(({ groupId }) => groupId === name).toSorted((x, y) => keys[x.index]! - keys[y.index]!);
      expect(await credited([...order('a'), ...order('b')])).toEqual(expected);
    };
    await fc.assert(fc.asyncProperty(fc.array(fc.integer(), { minLength: 5, maxLength: 5 }), check));
  });
});
