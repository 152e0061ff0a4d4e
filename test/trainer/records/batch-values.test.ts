import { describe, expect, it } from 'vitest';
import { batchValues, evaluationValues } from '../../../src/trainer/records/batch-values.ts';
import { EVALUATION_METRICS, RUBRIC_PREFIX, STEP_METRICS, STOP_PREFIX } from '../../../src/trainer/records/metrics.ts';
import { type Trajectory, unpaid } from '../../../src/trainer/trajectory.ts';
import { credits, passOver } from '../credit/credit-cases.ts';
import { someConfig } from '../some-config.ts';
import { trajectory } from '../some-trajectories.ts';

const FAILED = { reward: null, metrics: {}, error: { type: 'PolicyError', message: 'refused', retryable: true, source: 'policy' as const } };
const none = { ids: new Int32Array(0), promptLength: 0, targets: new Int32Array(0), logProbs: new Float64Array(0) };

/** `prompt` + sampled + environment tokens, with these log-probs. */
function tokens(prompt: number, environment: number, ...logProbs: number[]): Partial<Trajectory> {
  return {
    ids: new Int32Array(prompt + logProbs.length + environment),
    promptLength: prompt,
    targets: Int32Array.from(logProbs, (_, i) => prompt + i),
    logProbs: Float64Array.from(logProbs),
  };
}

const sampledBy = (version: number) => ({ policy: { model: 'policy', version } });

/** Group a is trained, b is constant, c has one finished rollout, and all of d failed. */
const ROLLOUTS = [
  trajectory('a/0', { reward: 1, metrics: { em: 1, searches: 2 }, turns: 3, ...sampledBy(4), ...tokens(2, 4, -1, -2, -3, -2) }),
  trajectory('a/1', { reward: 0, metrics: { em: 0, searches: 0 }, turns: 1, ...sampledBy(5), isTruncated: true, ...tokens(2, 1, -0.5) }),
  trajectory('b/0', { reward: 0.5, metrics: { em: 0 }, turns: 1, ...sampledBy(5), ...tokens(5, 0, -0.25) }),
  trajectory('b/1', { reward: 0.5, metrics: { em: 0 }, turns: 2, ...sampledBy(5), ...tokens(5, 6, -0.25) }),
  trajectory('c/0', { reward: 0.25, metrics: { em: 1 }, turns: 1, ...sampledBy(5), ...tokens(3, 0, -1) }),
  trajectory('c/1', { ...FAILED, ...sampledBy(0), ...none }),
  trajectory('d/0', { ...FAILED, ...sampledBy(0), ...none }),
  trajectory('d/1', { ...FAILED, ...sampledBy(5), isTruncated: true, ...tokens(3, 0, -99) }),
];
const CONFIG = someConfig({ algorithm: { advantage: { std: 'population', epsilon: 0 } } });
const pass = passOver();
const valuesOf = async (rollouts: readonly Trajectory[], version = 6) =>
  batchValues({ trajectories: rollouts }, await credits(CONFIG).assign(rollouts, pass), { version });

const undefinedNames = (values: object, defined: readonly { readonly name: string }[]) => {
  const names = new Set(defined.map(({ name }) => name));
  return Object.keys(values).filter((name) => !names.has(name) && ![RUBRIC_PREFIX, STOP_PREFIX].some((prefix) => name.startsWith(prefix)));
};

describe('batchValues', () => {
  it('counts a discarded rollout without a reward as finished, with its metrics and without a reward', async () => {
    const trajectories = [trajectory('a/0', { reward: 1, metrics: { em: 1 } }), trajectory('a/1', { reward: 0, metrics: { em: 0 } })];
    const discarded = [unpaid(trajectory('b/0', { metrics: { em: 1 } })), trajectory('b/1', { ...FAILED, ...none })];
    const work = await credits(CONFIG).assign(trajectories, pass);
    const values = batchValues({ trajectories, discarded }, work, { version: 6 });
    expect(values).toMatchObject({ rollouts: 3, rollouts_failed: 1, failed: 0.25, reward_mean: 0.5, 'rubric/em': 2 / 3, sampled_tokens: 6 });
  });

  it('gives the figures of a step that can be counted by hand', async () => {
    const rewards = [1, 0, 0.5, 0.5, 0.25];
    const squares = rewards.reduce((sum, reward) => sum + (reward - 0.45) ** 2, 0);
    const values = await valuesOf(ROLLOUTS);
    const expected = {
      rollouts: 5,
      rollouts_failed: 3,
      rollouts_unplayed: 0,
      failed: 3 / 8,
      reward_mean: 0.45,
      reward_std: Math.sqrt(squares / 4),
      reward_min: 0,
      reward_max: 1,
      group_reward_std: (0.5 + 0) / 2,
      // a/0 has four tokens of advantage 1, a/1 one of -1.
      advantage_mean: 3 / 5,
      advantage_abs_mean: 1,
      sampled_version: 4,
      staleness: 2,
      groups: 2,
      groups_constant: 1,
      groups_too_small: 2,
      sequences_dropped: 0,
      groups_trained: 1,
      sampled_tokens: 8,
      tokens_per_rollout: 8 / 5,
      sequence_length_max: 10,
      // Of a/0 and a/1: five of the ten tokens after the prompts.
      environment_tokens: 0.5,
      turns_mean: 8 / 5,
      truncated: 1 / 5,
      entropy: (8 + 0.5 + 0.25 + 0.25 + 1) / 8,
      'rubric/em': 2 / 5,
      'rubric/searches': 1,
      'stop/completed': 8,
    };
    const close = Object.entries(expected).map(([name, value]) => [name, expect.closeTo(value, 12) as number]);
    expect(values).toEqual(Object.fromEntries(close));
  });

  it('counts the tokens of older versions, token by token where several versions sampled a rollout', async () => {
    const versions = Int32Array.of(4, 6, 6, 6);
    const [first, ...others] = ROLLOUTS;
    // Of eight tokens, one of a/0 and the four of the other rollouts are older than version 6.
    expect(await valuesOf([{ ...first!, versions }, ...others])).toMatchObject({ rollouts_mixed: 1, tokens_older: 5 / 8, staleness: 2 });
    const plain = await valuesOf(ROLLOUTS);
    expect('rollouts_mixed' in plain || 'tokens_older' in plain).toBe(false);
  });

  it('has no number for what does not occur', async () => {
    const values = await valuesOf(ROLLOUTS.slice(5, 7));
    const counted = {
      rollouts: 0,
      rollouts_failed: 2,
      rollouts_unplayed: 0,
      failed: 1,
      'stop/completed': 2,
      groups: 0,
      groups_constant: 0,
      groups_too_small: 2,
      sequences_dropped: 0,
      groups_trained: 0,
      sampled_tokens: 0,
    };
    expect(values).toMatchObject(counted);
    const rest = Object.entries(values).filter(([name]) => !(name in counted));
    expect(rest.filter(([, value]) => value !== null)).toEqual([]);
    expect(rest.length).toBeGreaterThan(10);
  });

  it('counts how rollouts ended, in steps and evaluations, and those that were not played apart: no mean includes them', async () => {
    const error = { type: 'UnplayedError', message: 'too long', retryable: false, source: 'prompt' as const };
    const unplayed = ['e/0', 'e/1'].map((id) => trajectory(id, { ...FAILED, ...none, error, stop: 'prompt_too_long', isTruncated: true, turns: 0 }));
    const counts = { rollouts: 5, rollouts_failed: 5, rollouts_unplayed: 2, 'stop/completed': 8, 'stop/prompt_too_long': 2 };
    const [values, without] = [await valuesOf([...ROLLOUTS, ...unplayed]), await valuesOf(ROLLOUTS)];
    expect(values).toMatchObject(counts);
    for (const name of [
      'reward_mean',
      'reward_std',
      'advantage_mean',
      'group_reward_std',
      'turns_mean',
      'truncated',
      'tokens_per_rollout',
      'rubric/em',
    ])
      expect(values[name]).toBe(without[name]);
    const held = evaluationValues([...ROLLOUTS, ...unplayed]);
    expect(held).toMatchObject(counts);
    expect([held['reward_mean'], held['reward_low']]).toEqual([evaluationValues(ROLLOUTS)['reward_mean'], evaluationValues(ROLLOUTS)['reward_low']]);
  });

  it('gives the mean reward of each task, in steps and evaluations, and no number for a task that all failed', async () => {
    const tasks = ['search', 'sums', 'sums', 'search', null, 'search', 'gone', 'gone'];
    const rollouts = ROLLOUTS.map((each, i) => ({ ...each, task: tasks[i]! }));
    const expected = { 'reward/search': 0.75, 'reward/sums': 0.25, 'reward/gone': null };
    expect(await valuesOf(rollouts)).toMatchObject(expected);
    expect(evaluationValues(rollouts)).toMatchObject(expected);
    expect(Object.keys(await valuesOf(ROLLOUTS)).filter((name) => name.startsWith('reward/'))).toEqual([]);
  });

  it('tells the roles of a task apart, and names a role whose rows have no task', async () => {
    const spoken = [
      ['propose', 'sums'],
      ['solve', 'sums'],
      ['solve', 'sums'],
      ['solve', null],
      ['policy', 'sums'],
    ] as const;
    const rollouts = spoken.map(([role, task], i) => ({ ...ROLLOUTS[i]!, role, task }));
    const values = await valuesOf(rollouts);
    expect(Object.entries(values).filter(([name]) => name.startsWith('reward/'))).toEqual([
      ['reward/propose/sums', 1],
      ['reward/solve/sums', 0.25],
      ['reward/solve', 0.5],
      ['reward/sums', 0.25],
    ]);
  });

  it('counts no group as trained whose tokens are all masked', async () => {
    const masked = ROLLOUTS.slice(0, 2).map((each) => ({ ...each, isTruncated: true }));
    const formed = await credits(someConfig({ rollouts: { truncated: 'mask' } })).assign(masked, pass);
    expect(batchValues({ trajectories: masked }, formed, { version: 6 })).toMatchObject({
      groups: 1,
      groups_trained: 0,
      advantage_mean: null,
      sequence_length_max: null,
      sampled_tokens: 5,
    });
  });

  it('has a mean of rewards whose sum is beyond the largest number', async () => {
    const rollouts = [trajectory('a/0', { reward: 1e308 }), trajectory('a/1', { reward: 1e308 })];
    expect(await valuesOf(rollouts)).toMatchObject({ reward_mean: 1e308, rollouts: 2 });
  });

  it('uses only defined names', () => {
    expect(undefinedNames(valuesOf(ROLLOUTS), STEP_METRICS)).toEqual([]);
    expect(undefinedNames(evaluationValues(ROLLOUTS), EVALUATION_METRICS)).toEqual([]);
  });
});

describe('evaluationValues', () => {
  it('gives the mean with its interval by rows, and never counts a failure as 0', () => {
    const values = evaluationValues(ROLLOUTS);
    expect(values).toMatchObject({ rollouts: 5, rollouts_failed: 3, reward_mean: 0.45, truncated: 0.2, 'rubric/em': 0.4 });
    expect(values['reward_low']).toBeLessThan(0.45);
    expect(values['reward_high']).toBeGreaterThan(0.45);
  });

  it('has no reward where every rollout failed', () => {
    expect(evaluationValues(ROLLOUTS.slice(5))).toMatchObject({
      rollouts: 0,
      rollouts_failed: 3,
      reward_mean: null,
      reward_low: null,
      reward_high: null,
    });
  });
});
