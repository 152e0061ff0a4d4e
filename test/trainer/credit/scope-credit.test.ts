import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ResultsError, RewardError } from '../../../src/core/errors.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { someConfig } from '../some-config.ts';
import { advantageOf, advantagesOf, credits, passOver, PLAIN, rollouts, row, spoken, TableBackend } from './credit-cases.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-credit-'));
afterAll(() => rmSync(root, { recursive: true }));
let folders = 0;
const newFolder = () => mkdtempSync(join(root, `${++folders}-`));

const opened = (advantage: object, algorithm: object = {}, rest: object = {}) =>
  credits(someConfig({ algorithm: { advantage: { scope: 'batch', ...PLAIN, ...advantage }, ...algorithm }, rollouts: rest }));
const credited = (given: readonly Trajectory[], ...settings: Parameters<typeof opened>) => opened(...settings).assign(given, passOver());

/** Two rows of each role and task, one rollout each; the rewards of one scope are 1 and 0, of another 9 and 5, of the last 4 and 0. */
const SPEAKERS = [
  ...rollouts({ a: [1], b: [0] }, { role: 'asker', task: 'nq' }),
  ...rollouts({ c: [9], d: [5] }, { role: 'asker', task: 'hotpot' }),
  ...rollouts({ e: [4], f: [0] }, { role: 'solver', task: 'nq' }),
];
const valuesOf = (batch: Awaited<ReturnType<typeof credited>>) => [batch.values['groups'], batch.values['group_reward_std']];

describe('ScopeCredit', () => {
  it('compares the rollouts of a role and task, of a role, or of the batch', async () => {
    const perTask = await credited(SPEAKERS, { scope: 'role_task' });
    expect(advantageOf(perTask)).toEqual({ 'a/0': 1, 'b/0': -1, 'c/0': 1, 'd/0': -1, 'e/0': 1, 'f/0': -1 });
    expect(valuesOf(perTask)).toEqual([3, (0.5 + 2 + 2) / 3]);
    const perRole = await credited(SPEAKERS, { scope: 'role', std: 'none' });
    expect(advantageOf(perRole)).toEqual({ 'a/0': -2.75, 'b/0': -3.75, 'c/0': 5.25, 'd/0': 1.25, 'e/0': 2, 'f/0': -2 });
    expect(perRole.values['groups']).toBe(2);
    const all = await credited(SPEAKERS, { scope: 'batch', std: 'none' });
    expect(advantageOf(all)['c/0']).toBeCloseTo(9 - 19 / 6, 12);
    expect(all.values['groups']).toBe(1);
  });

  it('distinguishes a role named like another with its task', async () => {
    const given = [...rollouts({ a: [1] }, { role: 'a', task: null }), ...rollouts({ b: [0] }, { role: 'a', task: 'null' })];
    expect((await credited(given, { scope: 'role_task' })).values['groups']).toBe(2);
  });

  it('takes the reward itself with scope none, and tells how far the rewards are apart', async () => {
    const batch = await credited(rollouts({ a: [0.25, 0.75] }), { scope: 'none' });
    expect(advantageOf(batch)).toEqual({ 'a/0': 0.25, 'a/1': 0.75 });
    expect(valuesOf(batch)).toEqual([1, 0.25]);
    const equal = await credited(rollouts({ a: [1, 1] }), { scope: 'none' }, { constant_groups: 'drop' });
    expect(advantageOf(equal)).toEqual({ 'a/0': 1, 'a/1': 1 });
  });

  it('keeps the rollouts of a row together, in the order of the batch, whatever the scope', async () => {
    const batch = await credited(rollouts({ a: [1, null, 0], b: [0], c: [null] }), {});
    expect(batch.groups.map((group) => group.map(({ trajectory }) => trajectory.rolloutId))).toEqual([['a/0', 'a/2'], ['b/0']]);
    expect(batch.values).toMatchObject({ groups: 1, groups_too_small: 0 });
  });

  it('weighs each rollout once, or each of its tokens', async () => {
    const given = [spoken('a/0', 1, [[1, -1], null, [2, -1], [3, -1]]), spoken('b/0', 0, [[4, -1]])];
    expect(advantagesOf(await credited(given, { std: 'none' }))).toEqual({ 'a/0': [0.5, 0.5, 0.5], 'b/0': [-0.5] });
    const whitened = advantagesOf(await credited(given, { std: 'none', weighting: 'token' }));
    expect(whitened).toEqual({ 'a/0': [0.25, 0.25, 0.25], 'b/0': [-0.75] });
  });

  it('leaves a masked truncated rollout out of a mean over tokens', async () => {
    const given = rollouts({ a: [1, 0, 9] }).map((trajectory, i) => (i === 2 ? { ...trajectory, isTruncated: true } : trajectory));
    const mean = async (truncated: string) => 1 - advantageOf(await credited(given, { std: 'none', weighting: 'token' }, {}, { truncated }))['a/0']!;
    expect([await mean('mask'), await mean('train')]).toEqual([0.5, 10 / 3]);
  });

  it('counts the reward of a rollout without a token per rollout, but not per token', async () => {
    const given = [...rollouts({ a: [4, 0] }), spoken('b/0', 2, []), spoken('c/0', 6, [])];
    const mean = async (weighting: string) => 4 - advantageOf(await credited(given, { std: 'none', weighting }))['a/0']!;
    expect([await mean('sequence'), await mean('token')]).toEqual([3, 2]);
  });

  it('drops a constant scope, or keeps it with advantages of 0, and counts it either way', async () => {
    const given = [...rollouts({ a: [1, 1] }, { role: 'asker' }), ...rollouts({ b: [0, 1] }, { role: 'solver' })];
    const kept = await credited(given, { scope: 'role' });
    expect(advantageOf(kept)).toEqual({ 'a/0': 0, 'a/1': 0, 'b/0': -1, 'b/1': 1 });
    const dropped = await credited(given, { scope: 'role' }, { constant_groups: 'drop' });
    expect(advantageOf(dropped)).toEqual({ 'b/0': -1, 'b/1': 1 });
    expect([kept.values, dropped.values]).toEqual([kept.values, kept.values]);
    expect(kept.values).toMatchObject({ groups: 2, groups_constant: 1, group_reward_std: 0.25 });
  });

  it('keeps a constant scope that differs from earlier batches, also where constant ones are dropped', async () => {
    const credit = opened({ std: 'none', decay: 0.5 }, { constant_groups: 'drop' });
    expect((await credit.assign(rollouts({ a: [0, 0] }), passOver())).groups).toEqual([]);
    // Two rewards of 0 count as one: the mean of 0, 3, 3 is 2.
    expect(advantageOf(await credit.assign(rollouts({ b: [3, 3] }), passOver()))).toEqual({ 'b/0': 1, 'b/1': 1 });
  });

  it('negates, weighs stale rollouts and masks truncated ones', async () => {
    const given = rollouts({ a: [1, 0] }).map((each, i) => ({ ...each, ...(i === 0 ? { staleWeight: 0.5 } : { isTruncated: true }) }));
    const batch = await credited(given, {}, { negate_advantages: true }, { truncated: 'mask' });
    expect(advantagesOf(batch)).toEqual({ 'a/0': [-0.5, -0.5], 'a/1': [] });
  });

  it('passes demonstrations through, which no scope counts', async () => {
    const batch = await credited([...rollouts({ a: [1, 0] }), row('s/0', Float64Array.of(0.5, 2))], {});
    expect(advantagesOf(batch)).toEqual({ 'a/0': [1, 1], 'a/1': [-1, -1], 's/0': [0.5, 2] });
    expect((await credited([row('s/0')], {})).values).toEqual({});
  });

  it('refuses a reward that is not a finite number, whatever the scope', async () => {
    for (const scope of ['role', 'none']) await expect(credited(rollouts({ a: [1, NaN] }), { scope })).rejects.toThrow(RewardError);
  });
});

describe('KL in the reward of a scope', () => {
  const backend = () => new TableBackend({ initial: { 1: -3, 2: -1.5, 3: -1, 4: -1 } });
  // Penalties of 2, 0.5 and 0, with a coefficient of 1.
  const given = [spoken('a/0', 4, [[1, -1], [2, -1], null, [3, -1]]), spoken('b/0', 0, [[4, -1]])];
  const kl = { coefficient: 1, placement: 'reward', estimator: 'k1' };

  it('is subtracted from each token on with token weighting', async () => {
    const batch = await opened({ std: 'none', weighting: 'token' }, { kl }).assign(given, passOver(backend()));
    const returns = [4 - 2.5, 4 - 0.5, 4, 0];
    const mean = (1.5 + 3.5 + 4) / 4;
    const [a, b, c, d] = returns.map((own) => own - mean);
    expect(advantagesOf(batch)).toEqual({ 'a/0': [a, b, c], 'b/0': [d] });
  });

  it('is subtracted from the whole rollout with sequence weighting', async () => {
    const batch = await opened({ std: 'none' }, { kl }).assign(given, passOver(backend()));
    expect(advantagesOf(batch)).toEqual({ 'a/0': [0.75, 0.75, 0.75], 'b/0': [-0.75] });
  });
});

describe('a rollout whose KL penalty is not a number', () => {
  it('leaves its scope and is counted', async () => {
    const kl = { coefficient: 1, placement: 'reward', estimator: 'k1' };
    const given = [spoken('a/0', 9, [[3, -1]]), spoken('b/0', 1, [[2, -1]]), spoken('c/0', 0, [[2, -1]])];
    const batch = await opened({}, { kl }).assign(given, passOver(new TableBackend({ initial: { 3: NaN } })));
    expect(advantageOf(batch)).toEqual({ 'b/0': 1, 'c/0': -1 });
    expect(batch.values['sequences_dropped']).toBe(1);
  });
});

describe('the running statistics of a scope', () => {
  const advantage = { scope: 'role_task', decay: 0.9, std: 'sample', epsilon: 1e-6 };
  const batches = [0, 1, 2, 3, 4].map((step) =>
    ['asker', 'solver'].flatMap((role, i) =>
      rollouts({ [`${role}-${step}`]: [0.1 * step, 0.7 - 0.3 * i, (step * step) / 7] }, { role, task: step % 2 === 0 ? 'nq' : null }),
    ),
  );

  it.each(['sequence', 'token'])('are equal to those of an uninterrupted run, bit for bit, after saving and loading (%s)', async (weighting) => {
    const whole = opened({ ...advantage, weighting });
    const expected = [];
    for (const batch of batches) expected.push(advantagesOf(await whole.assign(batch, passOver())));
    for (const cut of [1, 2, 4]) {
      const [first, second, folder] = [opened({ ...advantage, weighting }), opened({ ...advantage, weighting }), newFolder()];
      for (const batch of batches.slice(0, cut)) await first.assign(batch, passOver());
      await first.saveState(folder);
      await second.loadState(folder);
      for (const [i, batch] of batches.slice(cut).entries()) expect(advantagesOf(await second.assign(batch, passOver()))).toEqual(expected[cut + i]);
    }
  });

  it('change the advantages; without a decay nothing is kept or written', async () => {
    const [kept, fresh, folder] = [opened({ ...advantage }), opened({ ...advantage, decay: 0 }), newFolder()];
    for (const credit of [kept, fresh]) await credit.assign(batches[0]!, passOver());
    const [after, alone] = [await kept.assign(batches[2]!, passOver()), await fresh.assign(batches[2]!, passOver())];
    expect(advantagesOf(after)).not.toEqual(advantagesOf(alone));
    await fresh.saveState(folder);
    expect(readdirSync(folder)).toEqual([]);
    await kept.saveState(folder);
    expect(readdirSync(folder)).toEqual(['credit.json']);
  });

  it('begin at nothing in a checkpoint without them', async () => {
    const credit = opened(advantage);
    await credit.loadState(newFolder());
    expect(advantagesOf(await credit.assign(batches[0]!, passOver()))).toEqual(advantagesOf(await opened(advantage).assign(batches[0]!, passOver())));
  });

  it.each([
    ['', 'an empty line'],
    ['{"batch": {"count": 1, "mean": 0', 'text that is not JSON'],
    ['{"batch": {"count": 1, "mean": "0", "squares": 0}}', 'mean'],
    ['{"batch": {"count": -1, "mean": 0, "squares": 0}}', 'count'],
    ['{"batch": {"count": 1, "mean": 0, "squares": 0, "more": 1}}', 'batch'],
    ['[]', 'it must be an object'],
  ])('refuse the damaged credit.json %j in one line', async (text, problem) => {
    const folder = newFolder();
    writeFileSync(join(folder, 'credit.json'), text);
    const loading = opened(advantage).loadState(folder);
    await expect(loading).rejects.toThrow(ResultsError);
    await expect(loading).rejects.toThrow(
      new RegExp(`^${join(folder, 'credit.json')} is invalid: [^\\n]*${problem}[^\\n]*; resume from an earlier checkpoint$`),
    );
  });

  it('refuse a credit.json that cannot be read', async () => {
    const folder = newFolder();
    rmSync(folder, { recursive: true });
    writeFileSync(folder, '');
    await expect(opened(advantage).loadState(folder)).rejects.toThrow(/^Cannot read .*credit.json: not a directory \(ENOTDIR\)/);
  });
});

describe('builtInCredit', () => {
  it('compares within groups by default, and within scopes where the configuration says so', async () => {
    const given = rollouts({ a: [1, 0], b: [9, 9] });
    const of = async (scope: string) =>
      advantageOf(await credits(someConfig({ algorithm: { advantage: { ...PLAIN, scope, std: 'none' } } })).assign(given, passOver()));
    expect(await of('group')).toEqual({ 'a/0': 0.5, 'a/1': -0.5, 'b/0': 0, 'b/1': 0 });
    expect(await of('batch')).toEqual({ 'a/0': -3.75, 'a/1': -4.75, 'b/0': 4.25, 'b/1': 4.25 });
  });
});
