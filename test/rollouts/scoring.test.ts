/** Scoring alongside the episodes: members in parallel, limits and deadlines of its own, failures that stay with the member that had them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import type { Row } from '../../src/core/dataset.ts';
import { CancelledError, ModelError, PolicyError, PromptTooLongError } from '../../src/core/errors.ts';
import { groupReward, reward, type RewardContext, Rubric, type Score } from '../../src/core/rubric.ts';
import { Parser } from '../../src/core/parser.ts';
import { RubricGroup } from '../../src/core/rubric-group.ts';
import type { Rollout, ScoredGroup } from '../../src/rollouts/rollout.ts';
import { runRollouts, type RunOptions } from '../../src/rollouts/run-rollouts.ts';
import { CountingEnv } from './counting-env.ts';

const never = () => new Promise<never>(() => {});
const keyed = new ScriptedClient({ turns: ({ key }) => `${key} stop;` });
const memberOf = ({ modelText }: RewardContext) => Number(/\/(\d+)/.exec(modelText)![1]);

async function play(rubric: Rubric, more: Partial<RunOptions<Row>> & { each?: number; rows?: number } = {}): Promise<ScoredGroup[]> {
  const { each = 8, rows = 1, ...options } = more;
  const environment = new CountingEnv({ rubric, rows });
  const groups = [...environment.eval].map((row) => ({ row, indices: Array.from({ length: each }, (_, i) => i) }));
  const scored: ScoredGroup[] = [];
  const run = runRollouts(groups, {
    environment,
    client: keyed,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    maxConcurrent: 8,
    timeoutMs: null,
    scoringGraceMs: 20,
    seed: 0,
    signal: new AbortController().signal,
    ...options,
  });
  for await (const group of run) scored.push(group);
  return scored;
}

/** The only rollout of an environment, played and scored by itself. */
async function playOnly(environment: CountingEnv, more: Partial<RunOptions<Row>> = {}): Promise<Rollout> {
  const [group] = await play(environment.rubric, { each: 1, environment, ...more });
  return group!.rollouts[0]!;
}

const judging = (judge: (context: RewardContext) => Promise<number>, name = 'judge') => new Rubric({ funcs: [reward(judge, { name })] });
const rewardsOf = (groups: readonly ScoredGroup[]) => groups.flatMap(({ rollouts }) => rollouts.map((rollout) => rollout.reward));

describe('runRollouts', () => {
  it('yields a group at a time, its members by index, and calls onRollout for each as soon as it has its score', async () => {
    const scored: string[] = [];
    const groups = await play(
      judging(async () => 1),
      { rows: 2, each: 3, onRollout: ({ rolloutId }) => scored.push(rolloutId) },
    );
    expect(
      groups
        .toSorted((a, b) => Number(a.groupId) - Number(b.groupId))
        .map(({ groupId, rollouts }) => [groupId, rollouts.map(({ index, scoredWith }) => [index, scoredWith])]),
    ).toEqual([
      [
        '0',
        [
          [0, 1],
          [1, 1],
          [2, 1],
        ],
      ],
      [
        '1',
        [
          [0, 1],
          [1, 1],
          [2, 1],
        ],
      ],
    ]);
    expect(scored.toSorted()).toEqual(['0/0', '0/1', '0/2', '1/0', '1/1', '1/2']);
  });

  it('scores the members of a group at once, no more than maxScoring', async () => {
    for (const [maxScoring, expected] of [
      [8, 8],
      [3, 3],
    ] as const) {
      let [active, peak] = [0, 0];
      const gate = Promise.withResolvers<void>();
      const rubric = judging(async () => {
        peak = Math.max(peak, ++active);
        if (active === expected) setImmediate(gate.resolve);
        await gate.promise;
        active -= 1;
        return 1;
      });
      await play(rubric, { maxScoring });
      expect(peak).toBe(expected);
    }
  });

  it('plays on while a slow judge scores: scoring takes no slot of an episode', async () => {
    const release = Promise.withResolvers<void>();
    let played = 0;
    const environment = new CountingEnv({
      rows: 4,
      rubric: judging(() => release.promise.then(() => 1)),
      // The judge answers only once every episode was played.
      onStep: () => {
        if (++played === 4) release.resolve();
      },
    });
    const groups = [...environment.eval].map((row) => ({ row, indices: [0] }));
    const options = {
      environment,
      client: keyed,
      sampling: { temperature: 1, topP: 1 },
      maxTokens: null,
      maxConcurrent: 1,
      timeoutMs: null,
      seed: 0,
    };
    const scored: ScoredGroup[] = [];
    for await (const group of runRollouts(groups, { ...options, signal: AbortSignal.timeout(10_000) })) scored.push(group);
    expect(rewardsOf(scored)).toEqual([1, 1, 1, 1]);
  });

  it('leaves seven members their scores when a judge fails for the eighth', async () => {
    const [group] = await play(
      judging(async (context) => {
        if (memberOf(context) === 3) throw new ModelError('the judge refused', { role: 'judge', reason: 'malformed' });
        return 1;
      }),
    );
    expect(group!.rollouts.map(({ reward: value }) => value)).toEqual([1, 1, 1, null, 1, 1, 1, 1]);
    expect(group!.rollouts[3]!.error).toMatchObject({
      type: 'ModelError',
      phase: 'scoring',
      source: 'model',
      reason: 'malformed',
      message: 'Reward "judge" failed: the judge refused',
    });
  });

  it('asks a judge again after a failure that may pass, for that member alone', async () => {
    const calls: number[] = [];
    const [group] = await play(
      judging(async (context) => {
        const member = memberOf(context);
        calls.push(member);
        if (member === 2 && calls.filter((c) => c === 2).length === 1) throw new ModelError('503', { role: 'judge', retryable: true });
        return 1;
      }),
    );
    expect(rewardsOf([group!])).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
    expect(calls.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 2, 3, 4, 5, 6, 7]);
  });

  it('ends the scoring of one member at its deadline, not that of the others; the wait for a slot does not count', async () => {
    const slow = judging(async (context) => (memberOf(context) === 0 ? never() : 1));
    const [group] = await play(slow, { scoringTimeoutMs: 40, maxScoring: 1 });
    expect(group!.rollouts.map(({ reward: value }) => value)).toEqual([null, 1, 1, 1, 1, 1, 1, 1]);
    expect(group!.rollouts[0]!.error).toMatchObject({ type: 'TimeoutError', phase: 'scoring' });
  });

  it('gives all rubrics of a group one deadline together', async () => {
    // Every piece but the last ends well within the deadline; all of them together do not.
    const busy = (name: string) => judging(() => sleep(40).then(() => 1), name);
    const [group] = await play(new RubricGroup(Array.from({ length: 40 }, (_, i) => busy(`part ${i}`))), { each: 2, scoringTimeoutMs: 400 });
    expect(group!.rollouts.map(({ error }) => error?.type)).toEqual(['TimeoutError', 'TimeoutError']);
  });

  it('gives another attempt at a piece of scoring the time that the failed one took', async () => {
    let calls = 0;
    const flaky = judging(async () => {
      calls += 1;
      await sleep(calls === 1 ? 400 : 300);
      if (calls === 1) throw new ModelError('503', { role: 'judge', retryable: true });
      return 1;
    });
    const [group] = await play(flaky, { each: 1, scoringTimeoutMs: 600 });
    expect(group!.rollouts.map(({ reward: value }) => value)).toEqual([1]);
  });

  it('finishes the rewards of a group before it begins those of later ones', async () => {
    const log: string[] = [];
    const logging = (what: string) =>
      judging(async ({ modelText }) => {
        await sleep(1);
        log.push(`${what} ${modelText[0]}`);
        return 1;
      }, what);
    const compared = logging('judge').extend([groupReward((contexts: readonly RewardContext[]) => contexts.map(() => 1), { name: 'compared' })]);
    const onRollout = ({ groupId }: Rollout) => void log.push(`done ${groupId}`);
    await play(new RubricGroup([compared, logging('style')]), { rows: 4, each: 2, maxScoring: 1, onRollout });
    const [first] = log.filter((line) => line.startsWith('judge'));
    const own = first!.slice(-1);
    // At most one member of another group has taken the slot between two pieces.
    expect(log.slice(0, log.indexOf(`done ${own}`)).filter((line) => line.startsWith('judge') && !line.endsWith(own)).length).toBeLessThan(3);
    expect(log.filter((line) => line.startsWith('done'))).toHaveLength(8);
  });

  it('counts as scored together only the members that got a score', async () => {
    const judge = judging(async (context) => {
      if (memberOf(context) === 1) throw new ModelError('no', { role: 'judge' });
      return 1;
    });
    const [group] = await play(judge.extend([groupReward((contexts: readonly RewardContext[]) => contexts.map(() => 1), { name: 'all' })]), {
      each: 3,
    });
    expect(group!.rollouts.map(({ reward: value, scoredWith }) => [value, scoredWith])).toEqual([
      [2, 2],
      [null, 0],
      [2, 2],
    ]);
  });

  it('begins no further rubric of a group once the deadline has passed', async () => {
    const begun: string[] = [];
    const waiting = (name: string) =>
      judging(async () => {
        begun.push(name);
        return never();
      }, name);
    await play(new RubricGroup([waiting('first'), waiting('second')]), { each: 1, scoringTimeoutMs: 20 });
    expect(begun).toEqual(['first']);
  });

  it('says which reward the deadline passed in, and which option sets it', async () => {
    const names = { rollout: '--timeout', scoring: '--scoring-timeout' };
    const rubric = new Rubric({ funcs: [reward(() => 1, { name: 'quick' }), reward(never, { name: 'slow' }), groupReward(never, { name: 'all' })] });
    const [group] = await play(rubric, { each: 1, scoringTimeoutMs: 20, timeoutNames: names });
    expect(group!.rollouts[0]!.error!.message).toBe(
      'The rewards were not computed within 0.02 s: reward "slow" was being computed. Raise --scoring-timeout if it needs more time.',
    );
    const [compared] = await play(new Rubric({ funcs: [groupReward(never, { name: 'all' })] }), { each: 2, scoringTimeoutMs: 20 });
    expect(compared!.rollouts[1]!.error!.message).toMatch(/: group reward "all" was being computed\. Raise scoringTimeoutMs/);
  });

  it('says what a rollout was doing when its deadline passed', async () => {
    const rubric = new Rubric({ funcs: [reward(() => 1, { name: 'one' })] });
    const timeoutNames = { rollout: 'rollouts.timeout_s', scoring: 'rollouts.scoring_timeout_s' };
    const { error } = await playOnly(new CountingEnv({ rubric, onStep: never }), { timeoutMs: 30, timeoutNames });
    expect(error).toMatchObject({
      type: 'TimeoutError',
      phase: 'environment',
      source: 'environment',
      message: 'The rollout did not end within 0.03 s: the environment was answering a turn. Raise rollouts.timeout_s if it needs more time.',
    });
  });

  it('treats a judge’s prompt that is too long as the judge’s failure, never as the stop of the rollout', async () => {
    const environment = new CountingEnv({
      onStep: () => {
        throw new PromptTooLongError('the judge reads 100 tokens');
      },
    });
    expect(await playOnly(environment)).toMatchObject({
      reward: null,
      stop: 'has_error',
      error: { type: 'PromptTooLongError', phase: 'environment' },
    });
  });

  it('keeps what was played of a group when the run is cancelled, scored among themselves', async () => {
    const stop = new AbortController();
    const share = groupReward((contexts) => contexts.map(() => 1 / contexts.length), { name: 'share' });
    let played = 0;
    const environment = new CountingEnv({
      rubric: new Rubric({ funcs: [share] }),
      onStep: (_kept, _row, signal) => {
        if (++played <= 3) return undefined;
        setImmediate(() => stop.abort());
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
      },
    });
    const options = {
      environment,
      client: keyed,
      sampling: { temperature: 1, topP: 1 },
      maxTokens: null,
      maxConcurrent: 1,
      timeoutMs: null,
      seed: 0,
    };
    const rollouts: Rollout[] = [];
    const run = async () => {
      const groups = [{ row: environment.eval.at(0), indices: [0, 1, 2, 3, 4, 5, 6, 7] }];
      for await (const group of runRollouts(groups, { ...options, signal: stop.signal })) rollouts.push(...group.rollouts);
    };
    await expect(run()).rejects.toThrow(CancelledError);
    expect(rollouts.map(({ index, reward: value, scoredWith }) => [index, value, scoredWith])).toEqual([
      [0, 1 / 3, 3],
      [1, 1 / 3, 3],
      [2, 1 / 3, 3],
    ]);
  });

  it('gives group rewards the members that could be scored, and fails only these when a group reward fails', async () => {
    const client = new ScriptedClient({
      turns: ({ key }) => {
        if (key === '0/1') throw new PolicyError('refused');
        return `${key} stop;`;
      },
    });
    const own = reward(
      (context: RewardContext) => {
        if (memberOf(context) === 2) throw new Error('no such field');
        return 0;
      },
      { name: 'own' },
    );
    const count = groupReward((contexts) => contexts.map(() => contexts.length), { name: 'count' });
    const [group] = await play(new Rubric({ funcs: [own, count] }), { client, each: 4 });
    expect(group!.rollouts.map(({ reward: value }) => value)).toEqual([2, null, null, 2]);
    const broken = groupReward(() => [NaN], { name: 'broken' });
    const [failed] = await play(new Rubric({ funcs: [own, broken] }), { client, each: 4 });
    expect(failed!.rollouts.map(({ error }) => error!.message.split(':')[0])).toEqual([
      'Group reward "broken" gave 1 numbers for 2 rollouts. It must give a list with a number for each.',
      'refused',
      'Reward "own" failed',
      'Group reward "broken" gave 1 numbers for 2 rollouts. It must give a list with a number for each.',
    ]);
  });

  it.each([
    ['too few scores', () => [{ reward: 1, metrics: {} }], 'gave 1 scores for 2 rollouts'],
    ['no list', () => undefined, 'gave no list of scores'],
    ['no number', (contexts: readonly unknown[]) => contexts.map(() => ({ reward: NaN, metrics: {} })), 'gave the reward NaN'],
  ])('fails the rollouts where a rubric of another class gives %s', async (_, scoreGroup, message) => {
    const rubric = { parser: new Parser(), hasGroupRewards: true, names: [], displays: new Map(), scoreGroup, score: () => {} };
    const [group] = await play(rubric as unknown as Rubric, { each: 2 });
    expect(group!.rollouts.map(({ reward: value, error }) => [value, error?.type, error?.source])).toEqual([
      [null, 'RewardError', 'reward'],
      [null, 'RewardError', 'reward'],
    ]);
    expect(group!.rollouts[0]!.error!.message).toContain(message);
  });

  it('takes scores without metrics of a rubric in JavaScript', async () => {
    class Plain extends Rubric {
      override async score(): Promise<Score> {
        return { reward: 2 } as Score;
      }
    }
    const [group] = await play(new Plain({ funcs: [] }), { each: 1 });
    expect(group!.rollouts.map(({ reward: value, metrics, error }) => [value, metrics, error])).toEqual([[2, {}, null]]);
  });

  it('treats a failure of the environment’s own client as the environment’s, not the policy’s', async () => {
    const onStep = () => {
      throw new PolicyError('the simulated user is down', { retryable: true });
    };
    const { error } = await playOnly(new CountingEnv({ onStep }));
    expect(error).toMatchObject({ phase: 'environment', source: 'environment' });
  });

  it('ends the run with what onRollout throws: a file that cannot be written, say', async () => {
    const full = () => {
      throw new Error('the disk is full');
    };
    await expect(
      play(
        judging(async () => 1),
        { onRollout: full },
      ),
    ).rejects.toThrow('the disk is full');
  });

  it.each([0, -1, 1.5, NaN])('refuses to score %s rollouts at once', async (maxScoring) => {
    await expect(
      play(
        judging(async () => 1),
        { maxScoring },
      ),
    ).rejects.toThrow('maxScoring must be an integer of at least 1');
  });
});
