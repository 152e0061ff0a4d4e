import { mkdtempSync, rmSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ConfigError, TrainingError } from '../../../src/core/errors.ts';
import type { Credit, CreditBatch } from '../../../src/trainer/credit.ts';
import { checkedCredit } from '../../../src/trainer/credit/checked-credit.ts';
import { groupAdvantages } from '../../../src/trainer/credit/group-advantages.ts';
import { someConfig } from '../some-config.ts';
import { advantagesOf, credits, passOver, rollouts, row, spoken, TableBackend } from './credit-cases.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-own-credit-'));
afterAll(() => rmSync(root, { recursive: true }));

const MODULE = './mine.ts (algorithm.advantage.use)';
const configOf = (algorithm: object = {}, rest: object = {}) =>
  someConfig({ algorithm: { ...algorithm, advantage: { use: './mine.ts', args: { half: 0.5 } } }, rollouts: rest });

/** A credit of a module, which nothing has typed. */
function opened(credit: unknown, config = configOf()) {
  return credits(
    config,
    checkedCredit(() => credit as Credit, config, MODULE),
  );
}

const assigning = (assign: (batch: CreditBatch) => unknown, config = configOf()) => opened({ assign }, config);

/** Two turns of two and one tokens with an observation between them, and a rollout of one turn. */
const SPOKEN = [spoken('a/0', 1, [[1, -1], [2, -1], null, [3, -1]]), spoken('a/1', 0, [[4, -1]])];

describe('checkedCredit', () => {
  it('gives up a state that is never written, after the deadline of scoring, or of the rollout without one', async () => {
    for (const rest of [{ scoring_timeout_s: 0.05 }, { timeout_s: 0.05 }]) {
      const hanging = opened({ assign: () => {}, saveState: () => new Promise(() => {}), loadState: async () => {} }, configOf({}, rest)).saveState(
        root,
      );
      await expect(hanging).rejects.toThrow(TrainingError);
      await expect(hanging).rejects.toThrow(/^saveState of the credit .\/mine.ts \(algorithm.advantage.use\) did not end within 0.05 s/);
    }
  });

  it('refuses an async assign, says what to do instead, and leaves no rejection behind', async () => {
    const assigned = assigning(async () => {
      throw new Error('nobody waits for this');
    }).assign(SPOKEN);
    await expect(assigned).rejects.toThrow(
      'assign of the credit ./mine.ts (algorithm.advantage.use) must not be async: it must return { advantages }, not a Promise. Read files with readFileSync, and ask other models in a reward or in a source',
    );
  });

  it('gives a module the turns, tokens, rewards and groups, without failed rollouts and supervised rows', async () => {
    const seen: CreditBatch[] = [];
    const given = [
      {
        ...SPOKEN[0]!,
        segments: [
          { kind: 'model', text: 'ask' },
          { kind: 'observation', text: 'see' },
          { kind: 'model', text: 'say' },
        ] as const,
      },
      { ...SPOKEN[1]!, segments: [] },
      ...rollouts({ b: [null], c: [2] }),
      row('s/0'),
    ];
    await assigning((batch) => (seen.push(batch), { advantages: batch.groups.map((group) => group.map(() => 0)) })).assign(given);
    expect(seen).toMatchObject([{ step: 1, failed: [{ rolloutId: 'b/0' }] }]);
    const [{ groups }] = seen as [CreditBatch];
    expect(groups.map((group) => group.map(({ trajectory, reward, tokens }) => [trajectory.rolloutId, reward, tokens]))).toEqual([
      [
        ['a/0', 1, 3],
        ['a/1', 0, 1],
      ],
      [['c/0', 2, 2]],
    ]);
    expect(groups[0]![0]!.turns).toEqual([
      { text: 'ask', observation: 'see', reward: null, start: 0, end: 2 },
      { text: 'say', observation: null, reward: null, start: 2, end: 3 },
    ]);
    expect(groups[0]![1]!.turns).toEqual([{ text: null, observation: null, reward: null, start: 0, end: 1 }]);
  });

  it('takes an advantage for a rollout, for each turn or for each token', async () => {
    const of = async (...advantages: readonly unknown[]) => advantagesOf(await assigning(() => ({ advantages: [advantages] })).assign(SPOKEN));
    expect(await of(2, -1)).toEqual({ 'a/0': [2, 2, 2], 'a/1': [-1] });
    expect(await of([1, 3], [5])).toEqual({ 'a/0': [1, 1, 3], 'a/1': [5] });
    expect(await of(Float64Array.of(1, 2, 3), 0)).toEqual({ 'a/0': [1, 2, 3], 'a/1': [0] });
  });

  it('leaves rollouts and turns out of the loss', async () => {
    const batch = await assigning(() => ({ advantages: [[[null, 3], null]] })).assign(SPOKEN);
    expect(advantagesOf(batch)).toEqual({ 'a/0': [3] });
    expect(batch.groups[0]![0]).toMatchObject({ targets: Int32Array.of(4), logProbs: Float64Array.of(-1) });
  });

  it('negates, weighs stale rollouts, masks truncated ones and drops groups of zeros as for a built-in credit', async () => {
    const config = configOf({ negate_advantages: true, constant_groups: 'drop' }, { truncated: 'mask' });
    const given = rollouts({ a: [1, 0], b: [1] }).map((each, i) => ({
      ...each,
      ...(i === 0 ? { staleWeight: 0.5 } : i === 1 ? { isTruncated: true } : {}),
    }));
    const batch = await assigning(() => ({ advantages: [[2, 1], [0]] }), config).assign(given);
    expect(advantagesOf(batch)).toEqual({ 'a/0': [-1, -1], 'a/1': [] });
    expect(batch.values).toEqual({ groups: 2, groups_constant: 1, groups_too_small: 0, sequences_dropped: 0 });
  });

  it('records the metrics and the reason of a module', async () => {
    const batch = await assigning(() => ({ advantages: [[0, 0]], values: { 'credit/mean': 3, 'credit/none': null }, constantReason: 'dull' })).assign(
      SPOKEN,
    );
    expect(batch).toMatchObject({ values: { 'credit/mean': 3, 'credit/none': null }, constantReason: 'dull' });
    const { constantReason, values } = await assigning(() => ({ advantages: [[0, 0]] })).assign(SPOKEN);
    // Their rewards differ, whatever the credit makes of them.
    expect(values['groups_constant']).toBe(0);
    expect(constantReason).toBe('the credit ./mine.ts gave every rollout 0, or left it out');
  });

  it('is not asked in a step without a finished rollout', async () => {
    const batch = await assigning(() => expect.unreachable()).assign(rollouts({ a: [null, null] }));
    expect(batch).toMatchObject({ groups: [], values: { groups: 0 } });
    expect((await assigning(() => expect.unreachable()).assign([row('s/0')])).groups).toHaveLength(1);
  });

  it('gets the KL penalty of each token if it subtracts it, and is refused next to one otherwise', async () => {
    const config = configOf({ kl: { coefficient: 2, placement: 'reward', estimator: 'k1' } });
    const assign = ({ groups }: CreditBatch) => ({ advantages: groups.map((group) => group.map(({ penalties }) => penalties)) });
    const backend = new TableBackend({ initial: { 1: -3, 2: -1.5, 3: -1, 4: -1 } });
    const batch = await opened({ needs: { penalties: true }, assign }, config).assign(SPOKEN, passOver(backend));
    expect(advantagesOf(batch)).toEqual({ 'a/0': [4, 1, 0], 'a/1': [0] });
    expect(() => assigning(assign, config)).toThrow(/^algorithm.kl.placement must be "loss" with the credit .\/mine.ts .*; got "reward"$/);
  });

  it.each([
    ['nothing', undefined, 'it must be { advantages }'],
    ['a misspelled key', { advantages: [[1, 1]], valuse: {} }, 'it has the key "valuse" (did you mean values'],
    ['no list', { advantages: 1 }, 'advantages must be a list with a list for each of the 1 groups, got 1'],
    ['a group too many', { advantages: [[1, 1], [1]] }, 'advantages must have a list for each of the 1 groups, got 2'],
    ['a number for a group', { advantages: [1] }, 'advantages[0], of the row a, must be a list with one entry for each of its 2 rollouts, got 1'],
    ['a rollout too few', { advantages: [[1]] }, 'advantages[0], of the row a, must have one entry for each of its 2 rollouts, got 1'],
    [
      'an absent one',
      { advantages: [[1, undefined]] },
      'advantages[0][1], of the rollout a/1, must be a number, a list with a number for each turn, .*; got undefined',
    ],
    ['NaN', { advantages: [[1, NaN]] }, 'advantages[0][1], of the rollout a/1, must be finite, got NaN'],
    ['an infinite turn', { advantages: [[[1, -Infinity], 1]] }, 'advantages[0][0], of the rollout a/0, must be finite, got -Infinity at turn 1'],
    ['a NaN token', { advantages: [[Float64Array.of(1, NaN, 2), 1]] }, 'advantages[0][0], of the rollout a/0, must be finite, got NaN at token 1'],
    [
      'tokens as a list',
      { advantages: [[[1, 2, 3], 1]] },
      'must have a number for each of its 2 turns, got 3; give one for each token as a Float64Array',
    ],
    ['tokens too few', { advantages: [[Float64Array.of(1), 1]] }, 'must have a number for each of its 3 tokens, got 1'],
    ['float32', { advantages: [[Float32Array.of(1, 2, 3), 1]] }, 'got a Float32Array'],
    ['a promise', { advantages: [[Promise.resolve(1), 1]] }, 'advantages[0][0], of the rollout a/0, is a promise; it must be the value itself'],
    ['a metric of the step', { advantages: [[1, 1]], values: { loss: 1 } }, 'the value "loss" must be called "credit/loss"'],
    [
      'a metric that the run measures',
      { advantages: [[1, 1]], values: { 'credit/turns_rewarded': 1 } },
      'the value "credit/turns_rewarded" is a metric of the run itself; choose another name',
    ],
    ['what single precision cannot hold', { advantages: [[1e39, 1]] }, 'must be finite in single precision, got 1e\\+39'],
    ['a metric that is NaN', { advantages: [[1, 1]], values: { 'credit/a': NaN } }, 'the value "credit/a" must be a finite number, .*; got NaN'],
    ['a reason that is not text', { advantages: [[1, 1]], constantReason: 3 }, 'constantReason must be text, got 3'],
  ])('refuses %s in one line that says where', async (_, value, problem) => {
    const assigned = assigning(() => value).assign(SPOKEN);
    await expect(assigned).rejects.toThrow(TrainingError);
    const pattern = problem.replaceAll(/[[\](){}]/g, '\\$&');
    await expect(assigned).rejects.toThrow(
      new RegExp(`^assign of the credit .\\/mine.ts \\(algorithm.advantage.use\\) returned a wrong value in step 1: .*${pattern}`),
    );
  });

  it.each([
    [null, /^createCredit of .* must return \{ assign\(batch\) \}, and saveState/],
    [{}, /must return \{ assign\(batch\) \}/],
    [Promise.resolve({ assign: () => ({}) }), /must not be async: it must return/],
    [{ assign: () => ({}), saveState: async () => {} }, /returns saveState without loadState. A credit with a state needs both/],
    [{ assign: () => ({}), loadState: async () => {} }, /returns loadState without saveState/],
    [
      { assign: () => ({}), needs: { penalties: 1 } },
      /^needs of the credit .* may have penalties and kinds, each true or false; got \{"penalties":1\}/,
    ],
    [{ assign: () => ({}), needs: { kl: true } }, /^needs of the credit .*; got \{"kl":true\}/],
  ])('refuses %o instead of a credit before a run begins', (credit, message) => {
    expect(() => opened(credit)).toThrow(ConfigError);
    expect(() => opened(credit)).toThrow(message);
  });

  it('names the module whose own code fails', async () => {
    const failing = () => {
      throw new TypeError('no such thing');
    };
    expect(() => checkedCredit(failing, configOf(), MODULE)).toThrow(/^createCredit of .\/mine.ts .* failed: .*no such thing/);
    const step = assigning(failing).assign(SPOKEN);
    await expect(step).rejects.toThrow(TrainingError);
    await expect(step).rejects.toThrow(/^assign of the credit .\/mine.ts .* failed: .*no such thing/);
    const odd = assigning(() => groupAdvantages([NaN], { baseline: 'mean', std: 'none', epsilon: 0, singleton: 'zero' })).assign(SPOKEN);
    await expect(odd).rejects.toThrow(/^assign of the credit .* failed: Member 0 of a group of 1 has the reward NaN/);
    await expect(opened({ assign: failing, saveState: failing, loadState: async () => {} }).saveState('/')).rejects.toThrow(
      /^saveState of the credit .* failed/,
    );
  });

  it('goes on with the state that it wrote, and has none where nothing was written', async () => {
    const stateful = () => {
      let sum = 0;
      return opened({
        assign: ({ groups }: CreditBatch) => ({ advantages: groups.map((group) => group.map(({ reward }) => reward - (sum += reward))) }),
        saveState: (directory: string) => writeFile(join(directory, 'sum.json'), JSON.stringify(sum)),
        async loadState(directory: string) {
          sum = Number(await readFile(join(directory, 'sum.json'), 'utf8'));
        },
      });
    };
    const [first, second, fresh] = [stateful(), stateful(), stateful()];
    await first.assign(rollouts({ a: [1, 2] }));
    await first.saveState(root);
    await second.loadState(root);
    await fresh.loadState(join(root, 'nothing'));
    const next = rollouts({ b: [4] });
    const expected = advantagesOf(await first.assign(next));
    expect(expected).toEqual({ 'b/0': [-3, -3] });
    expect(advantagesOf(await second.assign(next))).toEqual(expected);
    expect(advantagesOf(await fresh.assign(next))).toEqual({ 'b/0': [0, 0] });
  });
});
