import { describe, expect, it } from 'vitest';
import { ScriptedClient, type ScriptedOptions } from '../../src/clients/scripted.ts';
import { RetrievalError, RewardError, TrainingError } from '../../src/core/errors.ts';
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts } from '../../src/rollouts/run-rollouts.ts';
import { turnsOf } from '../../src/trainer/credit/rollout-turns.ts';
import { isDemonstration, isFinished, trajectoryOf, unpaid, withReward } from '../../src/trainer/trajectory.ts';
import { CountingEnv } from '../rollouts/counting-env.ts';
import { trajectory } from './some-trajectories.ts';

async function played(options: ScriptedOptions, environment = new CountingEnv()): Promise<Rollout> {
  const rows = [...environment.eval];
  const run = runRollouts(
    rows.map((row) => ({ row, indices: [1] })),
    {
      environment,
      client: new ScriptedClient(options),
      sampling: { temperature: 1, topP: 1 },
      maxTokens: null,
      maxConcurrent: 1,
      timeoutMs: null,
      seed: 0,
      signal: new AbortController().signal,
    },
  );
  for await (const { rollouts } of run) return rollouts[0]!;
  throw new Error('Expected a rollout');
}

/** Tokens written by two versions, as when a policy changes within an episode. */
function twoVersions(): TokenBuffer {
  const buffer = new TokenBuffer();
  const sample = (text: string) => ({
    text,
    tail: '',
    ids: Int32Array.from(text, (c) => c.charCodeAt(0)),
    logProbs: Float64Array.from(text, () => -0.5),
    textEnds: Int32Array.from(text, (_c, i) => i + 1),
  });
  buffer.appendGiven('prompt', Int32Array.of(1, 2));
  buffer.commit(sample('ab'), 2, 5);
  buffer.appendGiven('observation', Int32Array.of(3));
  buffer.commit(sample('c'), 1, 4);
  return buffer;
}

describe('trajectoryOf', () => {
  it('holds the whole sequence, the places that the policy wrote, and what the sampler reported for them', async () => {
    const rollout = await played({ turns: ['one;', 'stop;'], logProb: (i) => -0.125 * (i + 1) });
    const t = trajectoryOf(rollout);
    expect(Buffer.from(Uint8Array.from(t.ids)).toString()).toBe('Count.one; more stop;');
    expect(Buffer.from(Uint8Array.from(t.targets, (at) => t.ids[at]!)).toString()).toBe('one;stop;');
    const { mask, logProbs } = rollout.branches[0]!.tokens!;
    expect([...t.targets]).toEqual([...mask.keys()].filter((at) => mask[at] === 1));
    expect([...t.logProbs]).toEqual([...logProbs].filter((value) => !Number.isNaN(value)));
    expect(t).toMatchObject({ rolloutId: '0/1', groupId: '0', index: 1, reward: 9, error: null, promptLength: 6, turns: 2, policy: { version: 0 } });
    expect('versions' in t).toBe(false);
  });

  it('has the rewards of turns, and the lengths of turns where their tokens alone do not show them', async () => {
    const rewarded = trajectoryOf(await played({ turns: ['one;', 'stop;'] }, new CountingEnv({ turnRewards: { 2: 0.5 } })));
    expect(rewarded).toMatchObject({ turnRewards: [null, 0.5] });
    expect('turnTokens' in rewarded).toBe(false);
    class Silent extends CountingEnv {
      protected override envResponse = async (kept: string) => (kept.includes('stop') ? { done: true } : {});
    }
    const silent = trajectoryOf(await played({ turns: ['one;', '', 'stop;'] }, new Silent()));
    expect(silent).toMatchObject({ turnTokens: [4, 0, 5] });
    expect('turnRewards' in silent).toBe(false);
    expect(turnsOf({ ...silent, turnRewards: [1, null, 2] })).toEqual([
      { text: 'one;', observation: null, reward: 1, start: 0, end: 4 },
      { text: '', observation: null, reward: null, start: 4, end: 4 },
      { text: 'stop;', observation: null, reward: 2, start: 4, end: 9 },
    ]);
  });

  it('gives the version of each token only if versions differ, and the oldest of them', async () => {
    const rollout = await played({ turns: ['stop;'] });
    const t = trajectoryOf({ ...rollout, branches: [{ ...rollout.branches[0]!, tokens: twoVersions() }] });
    expect(t.policy.version).toBe(4);
    expect([...t.targets]).toEqual([2, 3, 5]);
    expect([...t.versions!]).toEqual([5, 5, 4]);
  });

  it('gives the version of each token of a turn that went on under new weights', async () => {
    const rollout = await played({ turns: ['stop;'] });
    const tokens = new TokenBuffer();
    tokens.appendGiven('prompt', Int32Array.of(1, 2));
    const sample = { text: 'abc', tail: '', ids: Int32Array.of(7, 8, 9), logProbs: Float64Array.of(-1, -2, -3), textEnds: Int32Array.of(1, 2, 3) };
    const versions = [
      { version: 4, tokens: 1 },
      { version: 6, tokens: 2 },
    ];
    tokens.commit({ ...sample, versions }, 3, 4);
    const t = trajectoryOf({ ...rollout, branches: [{ ...rollout.branches[0]!, tokens }] });
    expect(t.policy.version).toBe(4);
    expect([...t.versions!]).toEqual([4, 6, 6]);
    expect([...t.logProbs]).toEqual([-1, -2, -3]);
  });

  it('keeps a failed rollout without a reward, with the reason for its failure', async () => {
    const failing = new CountingEnv({
      onStep: () => {
        throw new RetrievalError('the retriever is gone', { retryable: true });
      },
    });
    const t = trajectoryOf(await played({ turns: ['one;'] }, failing));
    expect(t.reward).toBeNull();
    expect(t.error).toEqual({
      type: 'RetrievalError',
      message: 'the retriever is gone',
      retryable: true,
      source: 'environment',
      phase: 'environment',
    });
    expect(t.stop).toBe('has_error');
  });

  it('keeps a failed rollout that never had tokens', async () => {
    const rollout = await played({ turns: ['stop;'] });
    const error = { type: 'PolicyError', message: 'refused', chain: '', phase: 'lease' as const, source: 'policy' as const, retryable: true };
    const t = trajectoryOf({ ...rollout, branches: [{ ...rollout.branches[0]!, tokens: null }], reward: null, error });
    expect([t.ids.length, t.targets.length, t.logProbs.length, t.promptLength]).toEqual([0, 0, 0, 0]);
  });

  it('refuses a finished rollout without tokens and one with its context cut, and says how to train', async () => {
    const chat = await played({ kind: 'chat', turns: ['stop;'] });
    expect(chat.error).toBeNull();
    expect(() => trajectoryOf(chat)).toThrow(TrainingError);
    expect(() => trajectoryOf(chat)).toThrow(/0\/1 has no token ids .* train with a policy client that samples by token ids/);
    const cut = { ...(await played({ turns: ['stop;'] })), isCut: true };
    expect(() => trajectoryOf(cut)).toThrow(/context of rollout 0\/1 was cut.* overlong = "stop"/);
  });

  it('does not change while the rollout is still being written', async () => {
    const tokens = twoVersions();
    const rollout = await played({ turns: ['stop;'] });
    const t = trajectoryOf({ ...rollout, branches: [{ ...rollout.branches[0]!, tokens }] });
    const before = [...t.ids];
    tokens.ids[0] = 77;
    expect([...t.ids]).toEqual(before);
  });
});

const FAILED = trajectory('1/0', { reward: null, error: { type: 'PolicyError', message: 'refused', retryable: true, source: 'policy' } });
const DEMONSTRATION = trajectory('row/0', { reward: null, logProbs: null });

describe('unpaid', () => {
  it('takes the reward away and keeps the metrics; what failed stays failed', () => {
    const owed = unpaid(trajectory('1/0', { reward: 3 }));
    expect(owed).toMatchObject({ reward: null, isUnpaid: true, metrics: { em: 1 }, error: null });
    expect(unpaid(FAILED)).toBe(FAILED);
  });

  it('leaves a rollout that has finished and is not a demonstration', () => {
    const owed = unpaid(trajectory('1/0'));
    const kinds = [owed, trajectory('1/0'), FAILED, DEMONSTRATION].map((each) => [isFinished(each), isDemonstration(each)]);
    expect(kinds).toEqual([
      [true, false],
      [true, false],
      [false, false],
      [false, true],
    ]);
  });
});

describe('withReward', () => {
  it('pays a rollout that is owed its reward, with metrics in addition to its own', () => {
    const paid = withReward(unpaid(trajectory('1/0')), 0.25, { learnability: 0.25 });
    expect(paid).toEqual(trajectory('1/0', { reward: 0.25, metrics: { em: 1, learnability: 0.25 } }));
    expect('isUnpaid' in paid).toBe(false);
  });

  it('replaces a reward and a metric of the same name, and changes nothing in its argument', () => {
    const first = trajectory('1/0', { reward: 1 });
    expect(withReward(first, -0, { em: -0 })).toEqual(trajectory('1/0', { reward: 0, metrics: { em: 0 } }));
    expect(first).toEqual(trajectory('1/0', { reward: 1 }));
  });

  it('refuses a rollout that failed, a demonstration, and values that are not finite', () => {
    expect(() => withReward(FAILED, 1)).toThrow(TrainingError);
    expect(() => withReward(FAILED, 1)).toThrow('The rollout 1/0 failed (PolicyError), so it can have no reward');
    expect(() => withReward(DEMONSTRATION, 1)).toThrow('row/0 is a demonstration');
    for (const wrong of [NaN, Infinity, -Infinity]) {
      expect(() => withReward(trajectory('1/0'), wrong)).toThrow(RewardError);
      expect(() => withReward(trajectory('1/0'), wrong)).toThrow(`The reward of 1/0 must be a finite number, got ${wrong}`);
      expect(() => withReward(trajectory('1/0'), 1, { length: wrong })).toThrow(`The metric "length" of 1/0 must be a finite number, got ${wrong}`);
    }
    expect(() => withReward(trajectory('1/0'), undefined as never)).toThrow(RewardError);
  });
});
