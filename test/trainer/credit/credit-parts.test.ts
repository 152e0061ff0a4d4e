/** Credit of rollouts with several branches: a rollout counts once, whatever its number of branches. */
import { describe, expect, it } from 'vitest';
import { TrainingError } from '../../../src/core/errors.ts';
import { memberAdvantages } from '../../../src/trainer/credit/group-advantages.ts';
import { builtInCredit } from '../../../src/trainer/credit/registry.ts';
import { creditBatch } from '../../../src/trainer/credit/credit-batch.ts';
import { comparedRewards } from '../../../src/trainer/trajectory-branches.ts';
import { isInformative } from '../../../src/trainer/sources/sampled-source.ts';
import { turnsOf } from '../../../src/trainer/credit/rollout-turns.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { branched, type MadeUpBranch } from '../branched-trajectory.ts';
import { someConfig } from '../some-config.ts';
import { advantagesOf, passOver, PLAIN } from './credit-cases.ts';

/** Branches of one token each. */
const of = (id: string, reward: number, branches: readonly Omit<MadeUpBranch, 'sampled'>[], changes: Partial<Trajectory> = {}) =>
  branched(
    id,
    branches.map((branch) => ({ sampled: [-1], ...branch })),
    { reward, ...changes },
  );

async function credited(trajectories: readonly Trajectory[], algorithm: object = {}) {
  const config = someConfig({ algorithm: { advantage: PLAIN, ...algorithm } });
  return creditBatch(builtInCredit(config), trajectories, { config, step: 1, pass: passOver() });
}
const scoped = (scope: string, more: object = {}) => ({ advantage: { ...PLAIN, scope, ...more } });

describe('groupCredit', () => {
  it('compares rollouts, not branches, where no branch has a reward of its own', async () => {
    const batch = await credited([of('a/0', 1, [{}, {}, { role: 'writer' }]), of('a/1', 0, [{}]), of('a/2', 0, [{}]), of('a/3', 1, [{}])]);
    expect(advantagesOf(batch)).toEqual({ 'a/0': [1, 1, 1], 'a/1': [-1], 'a/2': [-1], 'a/3': [1] });
    expect(batch.values).toMatchObject({ groups: 1, groups_constant: 0, group_reward_std: 0.5, branch_tokens_left_out: 0 });
  });

  it("compares a branch's own reward with those of the same role, in which each rollout counts once", async () => {
    const batch = await credited(
      [
        of('a/0', 9, [
          { role: 'search', reward: 1 },
          { role: 'write', reward: 4 },
        ]),
        of('a/1', 9, [
          { role: 'search', reward: 0 },
          { role: 'search', reward: 2 },
          { role: 'write', reward: 2 },
        ]),
        // Without a role and reward of its own: the rollout's.
        of('a/2', 4, [{ role: 'search', reward: -2 }, { role: 'write' }]),
      ],
      { advantage: { std: 'none' } },
    );
    // search: the rollouts' means are 1, 1 and -2, their mean 0; write: 4, 2 and 4.
    const write = 10 / 3;
    expect(batch.groups.flat().map(({ advantages }) => [...advantages].map((value) => Number(value.toFixed(9))))).toEqual(
      [
        [1, 4 - write],
        [0, 2, 2 - write],
        [-2, 4 - write],
      ].map((own) => own.map((value) => Number(value.toFixed(9)))),
    );
  });

  it('leaves out a role that only one rollout has, and constant ones if they are dropped', async () => {
    const group = [
      of('a/0', 0, [
        { role: 'search', reward: 1 },
        { role: 'write', reward: 3 },
        { role: 'extra', reward: 8 },
      ]),
      of('a/1', 0, [
        { role: 'search', reward: 0 },
        { role: 'write', reward: 3 },
      ]),
    ];
    const kept = await credited(group);
    expect(advantagesOf(kept)).toEqual({ 'a/0': [1, 0], 'a/1': [-1, 0] });
    expect(kept.values).toMatchObject({ groups: 1, groups_constant: 0 });
    const dropped = await credited(group, { constant_groups: 'drop' });
    expect(advantagesOf(dropped)).toEqual({ 'a/0': [1], 'a/1': [-1] });
    expect(dropped.groups.flat().map(({ targets }) => [...targets])).toEqual([[2], [2]]);
  });

  it('gives tokens of branches that are not trained on no loss, and says their share', async () => {
    const batch = await credited([of('a/0', 1, [{}, {}]), of('a/1', 0, [{}])], { branches: 'last' });
    expect(batch.groups.flat().map(({ targets }) => [...targets])).toEqual([[6], [2]]);
    expect(batch.values['branch_tokens_left_out']).toBeCloseTo(1 / 3, 12);
  });

  it('subtracts the KL penalty of a branch from its own reward, that of a rollout from the whole', async () => {
    const kl = { kl: { coefficient: 1, estimator: 'k1', placement: 'reward', clamp: null }, advantage: { std: 'none' } };
    // Under the policy the log-probs are the sampler's; under the reference -1.
    const two = (id: string, rewards: readonly (number | undefined)[]) =>
      branched(
        id,
        rewards.map((reward, i) => ({ sampled: [-1 + i], ...(reward === undefined ? {} : { reward }) })),
        { reward: 1 },
      );
    const own = await credited([two('a/0', [1, 1]), two('a/1', [1, 3])], kl);
    // The second branch of each pays 1: their rewards are 1, 0 and 1, 2, the means 0.5 and 1.5.
    expect(advantagesOf(own)).toEqual({ 'a/0': [0, -1], 'a/1': [0, 1] });
    const whole = await credited([two('a/0', [undefined, undefined]), branched('a/1', [{ sampled: [-1] }], { reward: 1 })], kl);
    expect(advantagesOf(whole)).toEqual({ 'a/0': [-0.5, -0.5], 'a/1': [0.5] });
  });
});

describe('ScopeCredit', () => {
  const roles = [
    of('a/0', 1, [{ role: 'search' }, { role: 'write' }, { role: 'search' }]),
    of('b/0', 0, [{ role: 'search' }]),
    of('c/0', 0, [{ role: 'write' }, { role: 'write' }, { role: 'write' }]),
  ];

  it('has a population for each role of the branches, in which a rollout counts once', async () => {
    const batch = await credited(roles, scoped('role'));
    const rounded = Object.entries(advantagesOf(batch)).map(([id, own]) => [id, own.map((value) => Number(value.toFixed(12)))]);
    expect(Object.fromEntries(rounded)).toEqual({ 'a/0': [1, 1, 1], 'b/0': [-1], 'c/0': [-1, -1, -1] });
    expect(batch.values).toMatchObject({ groups: 2 });
    const third = [...roles, of('d/0', 0, [{ role: 'search' }])];
    // search has the rewards 1, 0 and 0, not 1, 1, 0 and 0.
    const [first] = advantagesOf(await credited(third, scoped('role', { std: 'none' })))['a/0']!;
    expect(first).toBeCloseTo(2 / 3, 12);
  });

  it('compares whole rollouts over the batch, and branches if they have rewards', async () => {
    expect(advantagesOf(await credited(roles.slice(0, 2), scoped('batch', { std: 'none' })))).toEqual({ 'a/0': [0.5, 0.5, 0.5], 'b/0': [-0.5] });
    const paid = [of('a/0', 9, [{ reward: 0 }, { reward: 2 }]), of('b/0', 3, [{}])];
    expect(advantagesOf(await credited(paid, scoped('batch', { std: 'none' })))).toEqual({ 'a/0': [-2, 0], 'b/0': [1] });
    expect(advantagesOf(await credited(paid, scoped('none')))).toEqual({ 'a/0': [0, 2], 'b/0': [3] });
  });

  it('weighs branches by their tokens where the scope does', async () => {
    const paid = [
      branched('a/0', [
        { sampled: [-1, -1, -1], reward: 0 },
        { sampled: [-1], reward: 4 },
      ]),
      branched('b/0', [{ sampled: [-1] }], { reward: 6 }),
    ];
    const found = advantagesOf(await credited(paid, scoped('batch', { std: 'none', weighting: 'token' })));
    expect(found).toEqual({ 'a/0': [-2, -2, -2, 2], 'b/0': [4] });
  });
});

describe('memberAdvantages', () => {
  it('takes the other members alone as the baseline of leave-one-out', () => {
    const config = { baseline: 'leave_one_out', std: 'none', epsilon: 0, singleton: 'zero' } as const;
    expect([...memberAdvantages([[1, 3], [5]], config).advantages]).toEqual([-4, -2, 3]);
  });

  it('finds as much deviation in branches that differ as in rollouts', () => {
    const config = { baseline: 'mean', std: 'population', epsilon: 0, singleton: 'zero' } as const;
    const { advantages, std, isConstant } = memberAdvantages([[0, 2], [1]], config);
    expect({ std, isConstant }).toEqual({ std: Math.SQRT1_2, isConstant: false });
    expect([...advantages].map((value) => Number(value.toFixed(9)))).toEqual([-1.414213562, 1.414213562, 0]);
  });
});

describe('comparedRewards', () => {
  it('is by role where a branch has a reward, so that a group of equal rollouts can inform', () => {
    const equal = [of('a/0', 1, [{}, {}]), of('a/1', 1, [{}])];
    expect(comparedRewards(equal)).toEqual([[1, 1]]);
    expect(isInformative(equal)).toBe(false);
    const paid = [of('a/0', 1, [{ role: 'search', reward: 2 }, { role: 'write' }]), of('a/1', 1, [{ role: 'search', reward: 3 }, { role: 'write' }])];
    expect(comparedRewards(paid)).toEqual([
      [2, 3],
      [1, 1],
    ]);
    expect(isInformative(paid)).toBe(true);
  });
});

describe('turnCredit', () => {
  it('runs over the turns of all branches in order, and refuses rewards of branches', async () => {
    const turns = { advantage: { use: 'turns', std: 'none' } };
    const rewarded = of('a/0', 1, [{}, {}], { turnRewards: [1, 0] });
    expect(turnsOf(rewarded).map(({ text, start, end }) => [text, start, end])).toEqual([
      ['turn 0', 0, 1],
      ['turn 1', 1, 2],
    ]);
    const batch = await credited([rewarded, of('a/1', 0, [{}, {}], { turnRewards: [0, 0] })], turns);
    expect(advantagesOf(batch)).toEqual({ 'a/0': [1, 0.5], 'a/1': [-1, -0.5] });
    const wrong = credited([of('a/0', 1, [{}, { reward: 2 }]), of('a/1', 0, [{}])], turns);
    await expect(wrong).rejects.toThrow(TrainingError);
    await expect(wrong).rejects.toThrow('rewards of their own, which the credit turns does not read. Set algorithm.advantage.use = "outcome"');
  });
});
