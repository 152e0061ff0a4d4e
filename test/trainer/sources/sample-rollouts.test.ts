import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { PolicyClient } from '../../../src/clients/policy-client.ts';
import { ScriptedClient, type ScriptedTurn } from '../../../src/clients/scripted.ts';
import { AgentError } from '../../../src/core/agent-error.ts';
import type { EnvResponse } from '../../../src/core/multi-turn.ts';
import { CancelledError, ModelError, PolicyError, PromptTooLongError, RetrievalError, TrainingError } from '../../../src/core/errors.ts';
import { groupReward, metric, reward, Rubric } from '../../../src/core/rubric.ts';
import { RolloutFiles } from '../../../src/trainer/records/rollout-files.ts';
import { sampleRollouts, type SamplingParts, type SamplingPlan } from '../../../src/trainer/sources/sample-rollouts.ts';
import type { TrainingEvent } from '../../../src/trainer/training-observer.ts';
import { CountingEnv } from '../../rollouts/counting-env.ts';
import { someConfig } from '../some-config.ts';
import { stepsOf, trajectory } from '../some-trajectories.ts';

let directory: string;
let store: RolloutFiles;
let reported: Omit<TrainingEvent, 'step'>[];
let recoveries: number;
/** Rollout ids in the order in which they were begun. */
let played: string[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-sample-'));
  store = new RolloutFiles(directory);
  [reported, recoveries, played] = [[], 0, []];
});
afterEach(() => rm(directory, { recursive: true }));

type Turn = (turn: ScriptedTurn) => string;
/** Writes `stop;` unless the test has it fail. */
const writing =
  (fail: Turn = () => 'stop;') =>
  (turn: ScriptedTurn) => {
    played.push(turn.key!);
    return fail(turn);
  };

function plan(changes: Partial<SamplingPlan> & { readonly examples?: number } = {}): SamplingPlan {
  const { examples = 3, ...rest } = changes;
  const environment = changes.environment ?? new CountingEnv({ rows: 8 });
  const rows = [...environment.train.take(examples)];
  return { step: 4, environment, rows, rolloutsPerExample: 2, temperature: 1, store, ...rest };
}

interface PartsChanges extends Partial<SamplingParts> {
  readonly turns?: Turn;
  readonly maxErrorRate?: number;
}

function parts({ turns, maxErrorRate = 0.5, ...changes }: PartsChanges = {}): SamplingParts {
  return {
    client: new ScriptedClient({ turns: writing(turns) }),
    config: someConfig({ rollouts: { max_error_rate: maxErrorRate, max_concurrent: 1 } }),
    observer: {},
    recover: async () => ++recoveries > 0,
    report: (event) => reported.push(event),
    signal: new AbortController().signal,
    ...changes,
  };
}

const refuse = (): never => {
  throw new PolicyError('the server is gone');
};
const fails = (error: Error): never => {
  throw error;
};
const tooLong = (): never => {
  throw new PromptTooLongError('The prompt has 9 tokens, and the window 8');
};
/** A failure that is not a server's fault. */
const fail = (): never => {
  throw new RetrievalError('no index');
};
/** Its searches fail while the retriever is down. */
const searchingEnv = (retriever: { readonly isDown: boolean }) =>
  new CountingEnv({
    rows: 8,
    onStep: (text) => {
      if (retriever.isDown && text.startsWith('search')) throw new RetrievalError('no index');
    },
  });
const recordedIds = async (step = 4) => {
  await using record = await store.open(step);
  return record.recorded.map(({ rolloutId }) => rolloutId);
};
const ALL = ['0/0', '0/1', '1/0', '1/1', '2/0', '2/1'];

describe('sampleRollouts', () => {
  it('gives one rollout for each row and index, in the order of the rows, and closes the step', async () => {
    const batch = await sampleRollouts(plan(), parts({ config: someConfig({ rollouts: { max_concurrent: 4 } }) }));
    expect(batch.trajectories.map(({ rolloutId }) => rolloutId)).toEqual(ALL);
    expect(batch).toMatchObject({ failed: 0, attempts: 1 });
    expect(await stepsOf(store)).toEqual([4]);
    expect(reported).toEqual([]);
  });

  it("gives recorded rollouts the plan's role, whatever an earlier version of the source called it", async () => {
    await sampleRollouts(plan({ role: 'critic' }), parts());
    const again = await sampleRollouts(plan({ role: 'critique' }), parts());
    expect(again.trajectories.map(({ role }) => role)).toEqual(ALL.map(() => 'critique'));
    expect(played).toHaveLength(ALL.length);
  });

  it('reports its progress', async () => {
    const seen: string[] = [];
    const observer = { onRollouts: (p: { done: number; total: number; failed: number }) => void seen.push(`${p.done}/${p.total} ${p.failed}`) };
    await sampleRollouts(plan({ examples: 1 }), parts({ observer, turns: ({ key }) => (key === '0/1' ? fail() : 'stop;') }));
    expect(seen).toEqual(['0/2 0', '1/2 0', '2/2 1']);
  });

  it('trains on a step with the allowed number of failures: they have an error and no reward', async () => {
    const batch = await sampleRollouts(plan(), parts({ turns: ({ key }) => (key!.startsWith('1/') ? fail() : 'stop;') }));
    expect(batch).toMatchObject({ failed: 2, attempts: 1 });
    expect(batch.trajectories.map((each) => [each.reward === null, each.error?.type ?? null])).toEqual([
      [false, null],
      [false, null],
      [true, 'RetrievalError'],
      [true, 'RetrievalError'],
      [false, null],
      [false, null],
    ]);
    expect(recoveries).toBe(0);
    expect(reported).toEqual([
      { kind: 'alarm', message: '2 of 6 rollouts failed; the first: RetrievalError: no index. Failed rollouts are left out of their groups' },
    ]);
  });

  const alarm = {
    kind: 'alarm',
    message: expect.stringMatching(
      /^2 of 6 rollouts could not be played; the first, 1\/0: The prompt has 9 tokens, and the window 8\. Serve .*take no part$/,
    ),
  };
  it.each([
    ['raises an alarm where they are more than allowed', 0.1, [alarm]],
    ['is silent where they are few', 0.5, []],
  ])('trains on the others where rollouts could not be played, does not try those again, and %s', async (_, maxErrorRate, events) => {
    const turns: Turn = ({ key }) => (key!.startsWith('1/') ? tooLong() : 'stop;');
    const batch = await sampleRollouts(plan(), parts({ turns, maxErrorRate }));
    expect(batch).toMatchObject({ failed: 0, attempts: 1 });
    const unplayed = batch.trajectories.filter((each) => each.reward === null);
    expect(unplayed.map(({ stop, error }) => [stop, error?.type])).toEqual([
      ['prompt_too_long', 'UnplayedError'],
      ['prompt_too_long', 'UnplayedError'],
    ]);
    expect(played).toHaveLength(ALL.length);
    expect(recoveries).toBe(0);
    expect(reported).toEqual(events);
  });

  it('stops where no rollout could be played, and plays them again on resume', async () => {
    await expect(sampleRollouts(plan(), parts({ turns: tooLong, maxErrorRate: 1 }))).rejects.toThrow(
      /^Stopped at step 4: None of the 6 rollouts could be played; the first, 0\/0: The prompt has 9 tokens, and the window 8\. Serve .*--max-model-len.* -R$/,
    );
    expect(played).toEqual(ALL);
    const batch = await sampleRollouts(plan(), parts());
    expect(batch.trajectories.map(({ error }) => error)).toEqual(ALL.map(() => null));
  });

  it('counts those that were not played apart from failures, which are played again', async () => {
    const turns: Turn = ({ key }) => (key === '0/0' ? tooLong() : key!.startsWith('1/') && played.length < 5 ? fail() : 'stop;');
    const batch = await sampleRollouts(plan(), parts({ turns, maxErrorRate: 0.2 }));
    expect(batch).toMatchObject({ failed: 0, attempts: 2 });
    expect(batch.trajectories.filter(({ error }) => error !== null).map(({ rolloutId }) => rolloutId)).toEqual(['0/0']);
  });

  it('keeps rollouts without their failed metric, and counts them', async () => {
    const failing = ({ row }: { readonly row: { readonly exampleId: unknown } }): number => (row.exampleId === '1' || row.exampleId === 1 ? NaN : 1);
    const environment = new CountingEnv({
      rows: 8,
      rubric: new Rubric({ funcs: [reward(() => 1, { name: 'one' }), metric(failing, { name: 'half' })] }),
    });
    const batch = await sampleRollouts(plan({ environment }), parts());
    expect(batch).toMatchObject({ failed: 0, attempts: 1 });
    expect(batch.trajectories.map(({ metrics }) => metrics['half'] ?? null)).toEqual([1, 1, null, null, 1, 1]);
    expect(reported).toEqual([{ kind: 'alarm', message: expect.stringMatching(/^Metric "half" failed in 2 of 6 rollouts: it gave NaN/) }]);
  });

  it('samples once more what a server failed, however little it was: the longest rollouts are those it loses', async () => {
    const turns: Turn = ({ key }) => (key === '1/0' ? refuse() : 'stop;');
    const batch = await sampleRollouts(plan(), parts({ turns }));
    expect(batch).toMatchObject({ failed: 1, attempts: 2 });
    expect(recoveries).toBe(1);
    expect(reported.map(({ kind, message }) => [kind, message])).toEqual([
      ['step_repeated', '1 of 6 rollouts failed; the first: PolicyError: the server is gone. Sampling failed rollouts again'],
      ['alarm', '1 of 6 rollouts failed; the first: PolicyError: the server is gone. Failed rollouts are left out of their groups'],
    ]);
    expect(played.filter((id) => id === '1/1')).toEqual(['1/1']);
  });

  it('samples again what failed, and nothing else, when more failed than are allowed', async () => {
    let isDown = true;
    const turns: Turn = ({ key }) => (isDown && key !== '0/0' ? refuse() : 'stop;');
    const recover = async () => {
      isDown = false;
      return ++recoveries > 0;
    };
    const batch = await sampleRollouts(plan(), parts({ turns, recover }));
    expect(batch).toMatchObject({ failed: 0, attempts: 2 });
    expect(recoveries).toBe(1);
    expect(reported).toEqual([
      {
        kind: 'step_repeated',
        message: expect.stringMatching(/4 of 5 rollouts played so far failed.*max_error_rate allows \(0\.5\).*PolicyError: the server is gone/),
      },
    ]);
    expect(played.filter((id) => id === '0/0')).toEqual(['0/0']);
  });

  it('stops early once more have failed than are allowed: the rest is not tried on a dead server', async () => {
    let isDown = true;
    const turns: Turn = () => (isDown ? refuse() : 'stop;');
    const recover = async () => {
      expect(new Set(played).size).toBe(4);
      isDown = false;
      return true;
    };
    await sampleRollouts(plan(), parts({ turns, recover }));
    expect(await recordedIds()).toHaveLength(6);
  });

  describe('a failure after which no rollout can succeed', () => {
    const ending = (): string => {
      if (played.length < 3) return 'stop;';
      throw new PolicyError('no model scripted', { status: 404, endsRun: true });
    };

    it('ends the run at once when the server is right, with what finished on file', async () => {
      const recover = async () => false;
      const sampling = sampleRollouts(plan(), parts({ turns: ending, recover, maxErrorRate: 1 }));
      await expect(sampling).rejects.toThrow(TrainingError);
      await expect(sampling).rejects.toThrow('Stopped at step 4: no model scripted. Fix this, then continue this run with -R');
      expect(played).toEqual(['0/0', '0/1', '1/0']);
      expect(await recordedIds()).toEqual(played);
      expect(await sampleRollouts(plan(), parts())).toMatchObject({ failed: 0 });
      expect(played.slice(3)).toEqual(['1/0', '1/1', '2/0', '2/1']);
    });

    it('ends the run when the server rejects the key of the health check', async () => {
      const recover = async () => {
        throw new PolicyError('401');
      };
      await expect(sampleRollouts(plan(), parts({ turns: ending, recover }))).rejects.toThrow('Stopped at step 4: no model scripted.');
    });

    it('is played again where the server had lost the adapter and has it again', async () => {
      let isLost = true;
      const recover = async () => {
        isLost = false;
        return true;
      };
      const batch = await sampleRollouts(plan(), parts({ turns: () => (isLost ? ending() : 'stop;'), recover }));
      expect(batch).toMatchObject({ failed: 0, attempts: 2 });
      expect(reported).toEqual([{ kind: 'step_repeated', message: 'scripted was lost: no model scripted. Sampling failed rollouts again' }]);
    });
  });

  it('does not bother the servers when the environment is what failed', async () => {
    const environment = new CountingEnv({
      rows: 8,
      onStep: () => {
        throw new RetrievalError('no index');
      },
    });
    await expect(sampleRollouts(plan({ environment }), parts())).rejects.toThrow(TrainingError);
    expect(recoveries).toBe(0);
  });

  const brokenEnv = () =>
    new CountingEnv({
      rows: 8,
      onStep: () => {
        (null as unknown as { answer: string }).answer.trim();
      },
    });

  it('stops at once where every rollout failed for the same fault in the code of the environment, and names its line', async () => {
    const sampling = sampleRollouts(plan({ environment: brokenEnv() }), parts({ turns: () => 'ask; stop;' }));
    await expect(sampling).rejects.toThrow(
      /^Stopped at step 4: 4 of 4 rollouts played so far failed in the same way; the first: EnvironmentError: Cannot read properties of null.* at \/\S*sample-rollouts\.test\.ts:\d+:\d+\. Further attempts would fail too\. Correct the cause, then continue this run with -R$/,
    );
    await expect(sampling).rejects.toMatchObject({ failedRollouts: 4 });
    expect([recoveries, reported.length]).toEqual([0, 0]);
    expect(await stepsOf(store)).toEqual([]);
    expect(await sampleRollouts(plan(), parts())).toMatchObject({ failed: 0 });
  });

  it.each<[string, () => never, number, number]>([
    ['a search server that is gone', () => fails(new Error('fetch failed: connect ECONNREFUSED 127.0.0.1:9')), 1, 5],
    ['a busy API', () => fails(new Error('Request failed with status code 503')), 1, 5],
    ['an agent that asks nothing', () => fails(new AgentError('It ended without asking the policy', { reason: 'no_call' })), 7, 1],
    ['what fails before the first turn, in the first step', () => fails(new Error('no file corpus.db')), 1, 1],
    ['the same in a later step, in which it may have moved', () => fails(new Error('no file corpus.db')), 7, 5],
  ])('tries %s as often as it may pass', async (_, onStart, step, attempts) => {
    const environment = new CountingEnv({ rows: 8, onStart });
    await expect(sampleRollouts(plan({ environment, step }), parts())).rejects.toThrow(
      attempts === 1 ? 'Further attempts would fail too' : 'after 5 attempts',
    );
    expect(reported).toHaveLength(attempts - 1);
  });

  it('tries again where one rollout worked', async () => {
    const isFirst = (text: string) => text.startsWith('stop');
    const environment = new CountingEnv({ rows: 8, onStep: (text) => void (isFirst(text) || (null as unknown as string).trim()) });
    const turns: Turn = ({ key }) => (key === '0/0' ? 'stop;' : 'ask; stop;');
    await expect(sampleRollouts(plan({ environment }), parts({ turns }))).rejects.toThrow('after 5 attempts');
  });

  it('samples a whole step again when the environment let only some of it through: those would not be a fair sample', async () => {
    const retriever = { isDown: true };
    const environment = searchingEnv(retriever);
    let repeated = 0;
    const report = () => {
      repeated++;
      retriever.isDown = false;
    };
    const turns: Turn = ({ key }) => (key === '0/0' ? 'stop;' : 'search; stop;');
    const batch = await sampleRollouts(plan({ environment }), parts({ turns, report, maxErrorRate: 0 }));
    expect(batch).toMatchObject({ failed: 0, attempts: 2 });
    expect(repeated).toBe(1);
    expect(played.filter((id) => id === '0/0')).toEqual(['0/0', '0/0']);
  });

  it.each([
    ['other samples when it samples the whole step again', fail, 2],
    ['the same samples when it samples a failed rollout again', refuse, 1],
  ])('draws %s', async (_, once, different) => {
    let isBroken = true;
    const failOnce = () => {
      if (isBroken) once();
      return 'stop;';
    };
    const isPolicys = once === refuse;
    const scripted = new ScriptedClient({ turns: writing(isPolicys ? failOnce : undefined) });
    const drawn: number[] = [];
    const lease: PolicyClient['lease'] = (signal, options) => {
      drawn.push(options!.random!.uint32());
      return scripted.lease(signal, options);
    };
    const client: PolicyClient = { capabilities: scripted.capabilities, name: scripted.name, lease, close: () => scripted.close() };
    const environment = new CountingEnv({ rows: 8, onStep: () => void (isPolicys || failOnce()) });
    const report = () => void (isBroken = false);
    await sampleRollouts(plan({ environment, examples: 1, rolloutsPerExample: 1 }), { ...parts({ report, maxErrorRate: 0 }), client });
    expect(drawn).toHaveLength(2);
    expect(new Set(drawn).size).toBe(different);
  });

  it('samples all of a step again where a role failed within episodes: those that did not call it would be no fair sample', async () => {
    let isDown = true;
    const environment = new CountingEnv({
      rows: 8,
      onStep: (text) => {
        if (isDown && text.startsWith('ask')) throw new ModelError('the critic is down', { role: 'critic', retryable: true });
      },
    });
    const report = () => {
      isDown = false;
    };
    const turns: Turn = ({ key }) => (key === '0/0' ? 'stop;' : 'ask; stop;');
    const batch = await sampleRollouts(plan({ environment }), parts({ turns, report, maxErrorRate: 0 }));
    expect(batch).toMatchObject({ failed: 0, attempts: 2 });
    expect(played.filter((id) => id === '0/0')).toEqual(['0/0', '0/0']);
  });

  it('stops the run after five attempts, with what failed, and keeps the step open', async () => {
    const sampling = sampleRollouts(plan(), parts({ turns: refuse }));
    await expect(sampling).rejects.toThrow(TrainingError);
    await expect(sampling).rejects.toThrow(/after 5 attempts at step 4: 4 of 4 rollouts played so far failed.*the server is gone/);
    expect([recoveries, reported.length]).toEqual([4, 4]);
    expect(await stepsOf(store)).toEqual([]);
    expect(await sampleRollouts(plan(), parts())).toMatchObject({ failed: 0 });
  });

  it('stops at once where a role has spent its budget, which no further attempt gets back', async () => {
    const spent = () => {
      throw new ModelError('Role judge has spent its budget of 2 calls. Raise roles.judge.budget_calls.', { role: 'judge', reason: 'budget' });
    };
    const environment = new CountingEnv({ rows: 8, rubric: new Rubric({ funcs: [reward(spent, { name: 'judge' })] }) });
    await expect(sampleRollouts(plan({ environment }), parts({ maxErrorRate: 0.1 }))).rejects.toThrow(
      /^Stopped at step 4: Reward "judge" failed: Role judge has spent its budget of 2 calls\. Raise roles\.judge\.budget_calls\. Then continue this run with -R$/,
    );
    expect([recoveries, reported.length]).toEqual([0, 0]);
    expect(played.length).toBeLessThan(6);
  });

  it('calls an evaluation by its name, and says how many of its rollouts failed', async () => {
    const error = await sampleRollouts(plan({ isEvaluation: true, step: 0 }), parts({ turns: refuse })).catch((thrown: unknown) => thrown);
    expect(reported[0]).toMatchObject({
      kind: 'evaluation_repeated',
      message: expect.stringMatching(/^4 of 4 rollouts played so far failed, more than .* Sampling failed rollouts again$/),
    });
    expect(error).toMatchObject({
      failedRollouts: 4,
      message: expect.stringMatching(/^Stopped after 5 attempts at the evaluation at step 0: 4 of 4/),
    });
    const environment = new CountingEnv({ rows: 8, rubric: new Rubric({ funcs: [reward(() => NaN, { name: 'nan' })] }) });
    await expect(sampleRollouts(plan({ environment, isEvaluation: true, step: 0 }), parts({ maxErrorRate: 0 }))).rejects.toThrow(
      'Stopped at the evaluation at step 0, rollout 0/0: Reward "nan" gave NaN',
    );
  });

  it('closes a step of nothing but failures when all may fail: what is trained on is decided elsewhere', async () => {
    const batch = await sampleRollouts(plan(), parts({ turns: fail, maxErrorRate: 1 }));
    expect(batch).toMatchObject({ failed: 6, attempts: 1 });
  });

  it('turns a reward that is not a number into a failed rollout, never into a reward', async () => {
    const nan = reward(() => NaN, { name: 'nan' });
    const environment = new CountingEnv({ rows: 8, rubric: new Rubric({ funcs: [nan] }) });
    const { trajectories } = await sampleRollouts(plan({ environment }), parts({ maxErrorRate: 1 }));
    expect(trajectories.map((each) => [each.reward, each.error!.type])).toEqual(ALL.map(() => [null, 'RewardError']));
  });

  it('stops at once where a reward throws: it names the reward and the line, and sampling again would select by what was written', async () => {
    let calls = 0;
    const broken = reward(
      ({ modelText }) => {
        calls++;
        return (JSON.parse('{}') as { text: string }).text.length + modelText.length;
      },
      { name: 'broken' },
    );
    const environment = new CountingEnv({ rows: 8, rubric: new Rubric({ funcs: [broken] }) });
    const stopped = sampleRollouts(plan({ environment }), parts({ maxErrorRate: 0 }));
    await expect(stopped).rejects.toThrow(
      /^Stopped at step 4, rollout 0\/0: Reward "broken" failed: TypeError: Cannot read properties of undefined \(reading 'length'\) at .*sample-rollouts\.test\.ts:\d+:\d+\. Correct the reward, then continue this run with -R$/,
    );
    await expect(stopped).rejects.toThrow(TrainingError);
    expect([calls, played, reported]).toEqual([1, ['0/0'], []]);
    expect(await stepsOf(store)).toEqual([]);
  });

  it.each<[string, () => unknown, RegExp]>([
    ['a turn reward that is not a number', () => ({ reward: NaN }), /step gave turn 1 the reward NaN\. It must be a finite number/],
    ['a turn reward that is a text', () => ({ reward: '1' }), /step gave turn 1 the reward "1" \(a string\)\. It must be a finite number/],
    [
      'a turn reward under a misspelt key',
      () => ({ rewards: 1 }),
      /envResponse of the environment counting returned the key "rewards" \(did you mean reward\?\)\. It may return observation, messages, kind, next, reward, done\./,
    ],
    ['an observation that is not text', () => ({ observation: 5 }), /step gave an observation that is not text: 5\./],
    [
      'messages that cannot be shown',
      () => ({ messages: [{ role: 'user', content: 5 }] }),
      /messages\[0\]\.content must be a string or a list of parts, got 5/,
    ],
    ['an unknown kind', () => ({ observation: 'x', kind: 'sound' }), /an observation of the kind "sound" \(a string\)\./],
    ['a stop condition that is not text', () => ({ done: 5 }), /step gave the stop condition 5\./],
    ['nothing', () => undefined, /envResponse of the environment counting returned nothing\. Return an object/],
    ['stop strings that are not a list', () => ({ next: { stop: 'a' } }), /gave "a" \(a string\) as stop strings/],
  ])('stops at once where the environment returns what it must not, and names rollout and module: %s', async (_, returned, problem) => {
    class Wrong extends CountingEnv {
      protected override async envResponse(): Promise<EnvResponse> {
        return returned() as EnvResponse;
      }
    }
    const config = { ...parts({ maxErrorRate: 0 }).config, environment: { id: 'mine/env.ts', args: {}, evalArgs: {} } };
    const stopped = sampleRollouts(plan({ environment: new Wrong({ rows: 8, turnFormat: 'chat' }) }), parts({ config }));
    await expect(stopped).rejects.toThrow(/^Stopped at step 4, rollout 0\/0: The environment|^Stopped at step 4, rollout 0\/0: envResponse/);
    await expect(stopped).rejects.toThrow(problem);
    await expect(stopped).rejects.toThrow(/ Correct the environment \(mine\/env\.ts\), then continue this run with -R$/);
    expect([played, reported]).toEqual([['0/0'], []]);
  });

  it.each<[string, object, RegExp]>([
    ['setupState', { setupState: () => undefined }, /setupState of the environment counting returned nothing/],
    ['keep', { keep: () => NaN }, /keep returned NaN/],
    ['prompt', { prompt: () => 'hello' }, /prompt must be a list of messages, got "hello"/],
    ['offeredTools', { offeredTools: () => undefined }, /offeredTools of the environment counting returned nothing/],
    [
      'a tool',
      { offeredTools: () => [{ name: 5 }] },
      /The environment gave tools that cannot be offered: tools\[0\]\.name must be a string, got 5\./,
    ],
    ['stop strings', { stop: [''] }, /The environment gave a list as stop strings\./],
    ['finish', { finish: async () => 5 }, /The finish hook of the environment returned 5\./],
  ])('stops at once where a hook returns what it must not: %s', async (_, hook, problem) => {
    const environment = Object.assign(new CountingEnv({ rows: 8 }), hook);
    const stopped = sampleRollouts(plan({ environment }), parts({ maxErrorRate: 0 }));
    await expect(stopped).rejects.toThrow(problem);
    await expect(stopped).rejects.toThrow(/^Stopped at step 4, rollout 0\/0: .* Correct the environment \(counting\)/);
    expect(reported).toEqual([]);
  });

  it.each<[string, () => unknown, string]>([
    ['nothing', () => undefined, 'nothing for 2 rollouts'],
    ['too few', () => [1], '1 numbers for 2 rollouts'],
    ['one number', () => 1, '1 for 2 rollouts'],
    ['NaN', () => [1, NaN], 'NaN, which is not a finite number'],
    ['texts', () => ['1', '2'], '"1" (a string), which is not a finite number'],
  ])('stops at once where a group reward gives %s, and names the module', async (_, returned, problem) => {
    const shared = groupReward(async () => returned() as number[], { name: 'shared' });
    const environment = new CountingEnv({ rows: 8, rubric: new Rubric({ funcs: [shared] }) });
    const config = { ...parts({ maxErrorRate: 0 }).config, environment: { id: 'mine/env.ts', args: {}, evalArgs: {} } };
    const stopped = sampleRollouts(plan({ environment }), parts({ config }));
    await expect(stopped).rejects.toThrow(`eward "shared" gave ${problem}`);
    await expect(stopped).rejects.toThrow(/ Correct the environment \(mine\/env\.ts\), then continue this run with -R$/);
    expect([played, reported]).toEqual([['0/0', '0/1'], []]);
  });

  it("stops at once where the code of the policy's client has a fault: no server is waited for", async () => {
    const fault = () => {
      throw new TypeError('content.map is not a function');
    };
    const stopped = sampleRollouts(plan(), parts({ turns: fault, maxErrorRate: 0 }));
    await expect(stopped).rejects.toThrow(
      /^Stopped at step 4, rollout 0\/0: the policy's client met a fault in its code, not an outage: TypeError: content\.map is not a function at .*sample-rollouts\.test\.ts:\d+:\d+\. Correct what it was given, or report the fault, then continue this run with -R$/,
    );
    expect([played, recoveries, reported]).toEqual([['0/0'], 0, []]);
  });

  it('samples the whole step again once the reward was corrected, so that the same code scores all of it', async () => {
    let isBroken = true;
    const environment = new CountingEnv({
      rows: 8,
      rubric: new Rubric({
        funcs: [
          reward(
            () => {
              if (isBroken && played.length > 2) throw new TypeError('no such field');
              return 1;
            },
            { name: 'fragile' },
          ),
        ],
      }),
    });
    await expect(sampleRollouts(plan({ environment }), parts({ maxErrorRate: 0 }))).rejects.toThrow('no such field');
    [isBroken, played] = [false, []];
    expect(await sampleRollouts(plan({ environment }), parts({ maxErrorRate: 0 }))).toMatchObject({ failed: 0 });
    expect(played).toEqual(ALL);
  });

  it('keeps a rollout whose reward threw, if allowed, while those that a server failed are sampled again', async () => {
    const environment = new CountingEnv({
      rows: 8,
      rubric: new Rubric({
        funcs: [
          reward(
            ({ modelText }) => {
              if (modelText.startsWith('odd')) throw new TypeError('odd');
              return 1;
            },
            { name: 'fragile' },
          ),
        ],
      }),
    });
    const turns: Turn = ({ key }) => (key === '1/0' ? refuse() : key === '0/0' ? 'odd stop;' : 'stop;');
    const batch = await sampleRollouts(plan({ environment }), parts({ turns }));
    expect(batch).toMatchObject({ failed: 2, attempts: 2 });
    expect(played.filter((id) => id === '0/0')).toEqual(['0/0']);
  });

  it('samples the whole step again when the deadline of rewards passed: the rollouts within it are the short ones', async () => {
    let isSlow = true;
    const environment = new CountingEnv({
      rows: 8,
      rubric: new Rubric({
        funcs: [reward(({ modelText }) => (isSlow && modelText.startsWith('long') ? new Promise<never>(() => {}) : 1), { name: 'slow' })],
      }),
    });
    const report = (event: Omit<TrainingEvent, 'step'>) => {
      reported.push(event);
      isSlow = false;
    };
    const turns: Turn = ({ key }) => (key === '2/1' ? 'long stop;' : 'stop;');
    const config = someConfig({ rollouts: { max_error_rate: 0, max_concurrent: 1, scoring_timeout_s: 0.05 } });
    expect(await sampleRollouts(plan({ environment }), parts({ turns, report, config }))).toMatchObject({ failed: 0, attempts: 2 });
    expect(reported[0]!.message).toMatch(
      /reward "slow" was being computed\. Raise rollouts\.scoring_timeout_s if it needs more time\. Sampling the whole step again$/,
    );
    expect(played).toEqual([...ALL, ...ALL]);
  });

  it('scores again, without sampling, what a judge out of service left without a score', async () => {
    let isDown = true;
    const environment = new CountingEnv({
      rows: 8,
      rubric: new Rubric({
        funcs: [
          reward(
            () => {
              if (isDown && played.length > 2) throw new ModelError('503.', { role: 'judge', retryable: true });
              return 1;
            },
            { name: 'judge' },
          ),
        ],
      }),
    });
    const report = (event: Omit<TrainingEvent, 'step'>) => {
      reported.push(event);
      isDown = false;
    };
    expect(await sampleRollouts(plan({ environment }), parts({ report, maxErrorRate: 0 }))).toMatchObject({ failed: 0, attempts: 2 });
    expect(reported[0]!.message).toMatch(/503\. Sampling the rollouts that could not be scored again$/);
    expect(played.filter((id) => id === '0/0')).toEqual(['0/0']);
  });

  it('counts failed clean-ups in an alarm; the rollouts are trained on', async () => {
    let cleaned = 0;
    const cleanup = async () => {
      if (++cleaned > 4) throw new Error('no such container');
    };
    const environment = Object.assign(new CountingEnv({ rows: 8 }), { cleanup });
    expect(await sampleRollouts(plan({ environment }), parts())).toMatchObject({ failed: 0 });
    expect(reported).toEqual([{ kind: 'alarm', message: expect.stringMatching(/^Clean-up failed in 2 of 6 rollouts: Error: no such container\. /) }]);
  });

  it('turns a log-prob that is not a number into a failed rollout, never into a number to train on', async () => {
    const client = new ScriptedClient({ turns: () => 'stop;', logProb: (index) => (index === 2 ? NaN : -1) });
    const { trajectories } = await sampleRollouts(plan(), parts({ client, maxErrorRate: 1 }));
    expect(trajectories.every(({ reward: value, error, logProbs }) => value === null && error !== null && logProbs!.every(Number.isFinite))).toBe(
      true,
    );
  });

  it('plays nothing of a step that is complete', async () => {
    await sampleRollouts(plan(), parts({ turns: ({ key }) => (key === '0/1' ? fail() : 'stop;') }));
    played = [];
    const again = await sampleRollouts(plan(), parts());
    expect(again).toMatchObject({ failed: 1, attempts: 1 });
    expect(again.trajectories.map(({ rolloutId }) => rolloutId)).toEqual(ALL);
    expect(played).toEqual([]);
  });

  it('plays only what is missing of a step that was interrupted', async () => {
    const stop = new AbortController();
    const turns: Turn = ({ key }) => {
      if (key === '1/1') stop.abort();
      return 'stop;';
    };
    await expect(sampleRollouts(plan(), parts({ turns, signal: stop.signal }))).rejects.toThrow(CancelledError);
    const before = await recordedIds();
    expect(before.length).toBeGreaterThan(0);
    played = [];
    const batch = await sampleRollouts(plan(), parts());
    expect(new Set(played)).toEqual(new Set(ALL.filter((id) => !before.includes(id))));
    expect(batch.trajectories.map(({ rolloutId }) => rolloutId)).toEqual(ALL);
  });

  it('samples the whole step again where an earlier process left only what a broken environment let through', async () => {
    const retriever = { isDown: true };
    const environment = searchingEnv(retriever);
    const turns: Turn = ({ key }) => (key === '0/0' ? 'stop;' : 'search; stop;');
    const stop = new AbortController();
    const begun = parts({ turns, maxErrorRate: 0.2, signal: stop.signal, report: () => stop.abort() });
    await expect(sampleRollouts(plan({ environment }), begun)).rejects.toThrow(CancelledError);
    expect(await recordedIds()).toEqual([]);
    retriever.isDown = false;
    played = [];
    expect(await sampleRollouts(plan({ environment }), parts({ turns, maxErrorRate: 0.2 }))).toMatchObject({ failed: 0 });
    expect([...new Set(played)].toSorted()).toEqual(ALL);
  });

  it('judges what a process left that was killed before it could say so', async () => {
    await using record = await store.open(4);
    const failed = { type: 'RetrievalError', message: 'no index', retryable: false, source: 'environment', phase: 'environment' } as const;
    for (const id of ['0/1', '1/0', '1/1']) record.add(trajectory(id, { reward: null, error: failed }));
    record.add(trajectory('0/0'));
    await record[Symbol.asyncDispose]();
    expect(await sampleRollouts(plan(), parts({ maxErrorRate: 0.2 }))).toMatchObject({ failed: 0 });
    expect(played.toSorted()).toEqual(ALL);
  });

  it('plays a whole group again where rewards compare its members', async () => {
    const compared = groupReward((contexts) => contexts.map((_, i) => i / contexts.length), { name: 'rank' });
    const environment = new CountingEnv({ rows: 8, rubric: new Rubric({ funcs: [compared] }) });
    await sampleRollouts(plan({ environment }), parts());
    const [kept] = (await sampleRollouts(plan({ environment }), parts())).trajectories;
    await store.discard(4);
    await using record = await store.open(4);
    record.add(kept!);
    await record[Symbol.asyncDispose]();
    played = [];
    const { trajectories } = await sampleRollouts(plan({ environment }), parts());
    expect(new Set(played)).toEqual(new Set(ALL));
    expect(trajectories.map(({ reward: value }) => value)).toEqual([0, 0.5, 0, 0.5, 0, 0.5]);
  });

  it('samples a complete step from scratch when more is asked for than it has', async () => {
    await sampleRollouts(plan({ examples: 2 }), parts());
    const batch = await sampleRollouts(plan({ examples: 3 }), parts());
    expect(batch.trajectories.map(({ rolloutId }) => rolloutId)).toEqual(ALL);
    expect(await recordedIds()).toEqual(ALL);
  });

  it('takes what is asked for from a complete step that has more', async () => {
    await sampleRollouts(plan({ examples: 3 }), parts());
    played = [];
    const batch = await sampleRollouts(plan({ examples: 2 }), parts());
    expect(batch.trajectories.map(({ rolloutId }) => rolloutId)).toEqual(ALL.slice(0, 4));
    expect(played).toEqual([]);
  });

  it('samples from scratch when a complete step has as many rollouts, but of other rows', async () => {
    await sampleRollouts(plan({ examples: 2, rolloutsPerExample: 3 }), parts());
    const batch = await sampleRollouts(plan({ examples: 3, rolloutsPerExample: 2 }), parts());
    expect(batch.trajectories.map(({ rolloutId }) => rolloutId)).toEqual(ALL);
  });

  it('continues a step that was interrupted when less is asked for than it has', async () => {
    const stop = new AbortController();
    const turns: Turn = ({ key }) => {
      if (key === '2/1') stop.abort();
      return 'stop;';
    };
    await expect(sampleRollouts(plan(), parts({ turns, signal: stop.signal }))).rejects.toThrow(CancelledError);
    played = [];
    const batch = await sampleRollouts(plan({ examples: 1 }), parts());
    expect(batch.trajectories.map(({ rolloutId }) => rolloutId)).toEqual(['0/0', '0/1']);
    expect(played).toEqual([]);
  });
});
