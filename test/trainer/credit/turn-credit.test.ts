import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { trajectory } from '../some-trajectories.ts';
import { someConfig } from '../some-config.ts';
import { advantagesOf, credits } from './credit-cases.ts';

type Turn = number | null;

/** A rollout whose turns have one token each, with these rewards, and this reward of its own. */
function turned(rolloutId: string, reward: number, turns: readonly Turn[]) {
  const targets = Int32Array.from(turns, (_, i) => 2 * i + 1);
  return trajectory(rolloutId, {
    reward,
    ids: new Int32Array(2 * turns.length),
    promptLength: 1,
    targets,
    logProbs: new Float64Array(turns.length),
    turnRewards: turns,
  });
}

const opened = (args: object, advantage: object = {}, algorithm: object = {}) =>
  credits(someConfig({ algorithm: { ...algorithm, advantage: { use: 'turns', args, ...advantage } } }));
const credited = async (given: readonly ReturnType<typeof turned>[], ...settings: Parameters<typeof opened>) =>
  Object.values(advantagesOf(await opened(...settings).assign(given)));
const close = (rows: readonly (readonly number[])[]) => rows.map((own) => own.map((value) => expect.closeTo(value, 12)));

const PAPER = [turned('a/0', 1, [0.2, null]), turned('a/1', 0, [0, null]), turned('a/2', 0, [0.5, null]), turned('a/3', 0.5, [0.3, null])];
const TRL = { std: 'sample', epsilon: 1e-4 };

/**
 * `_assign_advantages` of SiliangZeng/Multi-Turn-RL-Agent (7860de6e) with turn rewards .2, 0, .5, .3 and outcomes 1, 0, 0, .5 in torch's float64: discount_factor .9
 * for `cae`, turn_advantage_coef .5 for `aae`. Each row: the tokens before the tool's result, and those after it.
 */
const AUTHORS = {
  cae: [
    [1.107733747082969, 1.3053097493539774],
    [-1.2698411247048667, -0.7831858496123865],
    [-0.18912527389221423, -0.7831858496123865],
    [0.35123265151411204, 0.2610619498707955],
  ],
  aae: [
    [1.1852712986066734, 1.3053097493539774],
    [-1.3833781033489063, -0.7831858496123865],
    [-0.1829935958758665, -0.7831858496123865],
    [0.38110040061809947, 0.2610619498707955],
  ],
};

describe('turnCredit', () => {
  it("has the advantages of MT-GRPO's authors", async () => {
    expect(await credited(PAPER, { gamma: 0.9 }, TRL)).toEqual(close(AUTHORS.cae));
    expect(await credited(PAPER, { estimate: 'sum', turn_weight: 0.5 }, TRL)).toEqual(close(AUTHORS.aae));
  });

  it('sums the rewards from each turn on, discounted, with the reward of the rollout in its last turn', async () => {
    const given = [turned('a/0', 1, [2, null, 4]), turned('a/1', 0, [0, 0, 0])];
    expect(await credited(given, { gamma: 0.5 }, { scope: 'none' })).toEqual([
      [2 + 5 / 4, 5 / 2, 5],
      [0, 0, 0],
    ]);
  });

  it('compares a turn with the same turn of others, or with all turns', async () => {
    const given = [turned('a/0', 4, [null, null]), turned('a/1', 0, [2])];
    expect(await credited(given, {}, { std: 'none' })).toEqual([[1, 0], [-1]]);
    expect(await credited(given, { compare: 'all' }, { std: 'none' })).toEqual(
      [[2 / 3, 2 / 3], [-4 / 3]].map((own) => own.map((value) => expect.closeTo(value, 12))),
    );
  });

  it('does not take a turn without a reward for one of 0', async () => {
    const given = [turned('a/0', 0, [4]), turned('a/1', 0, [null]), turned('a/2', 0, [2])];
    expect(await credited(given, { estimate: 'sum' }, { std: 'none' })).toEqual([[1], [0], [-1]]);
  });

  it('compares beyond the row where the scope says so, which then needs one rollout of each', async () => {
    const given = [turned('a/0', 1, [null]), turned('b/0', 0, [null])];
    expect(await credited(given, {}, { scope: 'batch', std: 'none' })).toEqual([[0.5], [-0.5]]);
    expect(await credited(given, {}, { std: 'none' })).toEqual([]);
  });

  it('records the mean reward of turns and the share that has one, and counts and drops constant groups', async () => {
    const given = [turned('a/0', 1, [0.5, null]), turned('a/1', 1, [0.5]), turned('b/0', 1, [null]), turned('b/1', 0, [null])];
    const { values, groups } = await opened({}, {}, { constant_groups: 'drop' }).assign(given);
    expect(values).toMatchObject({ 'credit/turn_reward_mean': 0.5, 'credit/turns_rewarded': 2 / 5 });
    expect([values['groups_constant'], groups.length]).toEqual([1, 1]);
    const equal = await opened({}, {}, { constant_groups: 'drop' }).assign([turned('a/0', 1, [2]), turned('a/1', 1, [2])]);
    expect(equal).toMatchObject({ groups: [], values: { groups_constant: 1 } });
  });

  it.each([
    [{ gama: 1 }, {}, /^The credit turns has no setting gama \(did you mean gamma\?\); its settings are estimate, gamma, compare, turn_weight/],
    [{ gamma: 2 }, {}, /^The settings \(algorithm.advantage.args\) of the credit turns are wrong: gamma must be <= 1/],
    [{ estimate: 'sum', gamma: 1 }, {}, /^The setting gamma of the credit turns has no effect with estimate = "sum"/],
    [{ turn_weight: 1 }, {}, /^The setting turn_weight of the credit turns has no effect with estimate = "returns"/],
    [{}, { decay: 0.5, scope: 'batch' }, /^algorithm.advantage.decay must be left out with algorithm.advantage.use = "turns"/],
  ])('refuses %j with %j', (args, advantage, message) => {
    expect(() => opened(args, advantage)).toThrow(ConfigError);
    expect(() => opened(args, advantage)).toThrow(message);
  });

  it('refuses a KL penalty in the reward', () => {
    const kl = { coefficient: 1, placement: 'reward' };
    expect(() => opened({}, {}, { kl })).toThrow(/^algorithm.kl.placement must be "loss" with algorithm.advantage.use = "turns"/);
  });
});
