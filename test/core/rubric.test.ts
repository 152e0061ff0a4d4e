import { describe, expect, it } from 'vitest';
import { Dataset } from '../../src/core/dataset.ts';
import { ConfigError, PolicyError, RewardError } from '../../src/core/errors.ts';
import { Parser } from '../../src/core/parser.ts';
import { RubricGroup } from '../../src/core/rubric-group.ts';
import { groupReward, metric, reward, type RewardContext, Rubric, type Score } from '../../src/core/rubric.ts';
import { ToolEnv } from '../../src/core/tool-use.ts';

function context(modelText: string): RewardContext {
  return {
    row: { exampleId: 1, prompt: [], answer: 'yes' },
    prompt: [],
    segments: [{ kind: 'model', text: modelText }],
    scoredText: modelText,
    modelText,
    stop: 'completed',
    state: {},
    parser: new Parser(),
    models: {},
    signal: new AbortController().signal,
  };
}
function exactMatch({ modelText, row }: RewardContext): number {
  return modelText === row.answer ? 1 : 0;
}
const length = ({ modelText }: RewardContext) => modelText.length;

describe('Rubric', () => {
  it('adds weighted values and reports every value unweighted', async () => {
    const rubric = new Rubric({ funcs: [exactMatch, reward(length, { weight: 0.1 }), metric(() => 7, { name: 'seven' })] });
    expect(await rubric.score(context('yes'))).toEqual({ reward: 1 + 0.1 * 3, metrics: { exactMatch: 1, length: 3, seven: 7 } });
    expect(rubric.names).toEqual(['exactMatch', 'length', 'seven']);
    expect(rubric.rewardNames).toEqual(['exactMatch', 'length']);
  });

  it('gives group rewards the whole group at once', async () => {
    const rank = groupReward((contexts) => contexts.map((c) => contexts.filter((d) => d.modelText.length < c.modelText.length).length), {
      name: 'rank',
      weight: 2,
    });
    const rubric = new Rubric({ funcs: [rank] });
    expect(rubric.hasGroupRewards).toBe(true);
    const scores = await rubric.scoreGroup([context('aaa'), context('a'), context('aa')]);
    expect(scores.map((s) => s.reward)).toEqual([4, 0, 2]);
  });

  describe('of a class that scores itself', () => {
    const half = { funcs: [reward(length, { name: 'length', weight: 0.5 })] };
    class One extends Rubric {
      override async score(each: RewardContext): Promise<Score> {
        const { reward: inherited, metrics } = await super.score(each);
        if (each.modelText === 'broken') throw new TypeError('no such field');
        return { reward: inherited + 10, metrics };
      }
    }
    class Whole extends Rubric {
      override async scoreGroup(contexts: readonly RewardContext[]): Promise<readonly Score[]> {
        const scores = await super.scoreGroup(contexts);
        return scores.map((score) => ({ ...score, reward: score.reward + contexts.length }));
      }
    }
    const texts = [context('a'), context('aaa')];

    it('uses its score, alone, in a group and with further metrics', async () => {
      const rubric = new One(half);
      expect((await rubric.score(context('aa'))).reward).toBe(11);
      expect((await rubric.scoreGroup(texts)).map(({ reward: value }) => value)).toEqual([10.5, 11.5]);
      const [score, error] = await rubric.settleGroup([context('a'), context('broken')]);
      expect([score, error]).toEqual([{ reward: 10.5, metrics: { length: 1 } }, expect.any(RewardError)]);
      expect((await new RubricGroup([rubric, rubric]).score(context('aa'))).reward).toBe(22);
      const tools = new ToolEnv({ id: 'tools', eval: new Dataset('rows', []), rubric, tools: [] });
      expect(await tools.rubric.score({ ...context('aa'), state: { calls: {}, badCalls: 0 } })).toEqual({
        reward: 11,
        metrics: { length: 2, total_tool_calls: 0, bad_tool_calls: 0, tool_errors: 0 },
      });
    });

    it('uses its scoreGroup', async () => {
      const rubric = new Whole(half);
      expect((await rubric.settleGroup(texts)).map((score) => (score as Score).reward)).toEqual([2.5, 3.5]);
      expect((await rubric.score(context('aa'))).reward).toBe(2);
    });
  });

  it.each([NaN, Infinity, undefined as unknown as number])('turns a reward of %s into an error, never a zero', async (value) => {
    const rubric = new Rubric({ funcs: [reward(() => value, { name: 'broken' })] });
    await expect(rubric.score(context('x'))).rejects.toThrow('Reward "broken" gave');
  });

  it('has no value for a metric that does not apply, and no error', async () => {
    const funcs = [reward(() => 1, { name: 'right' }), metric(({ modelText }) => (modelText === 'a' ? null : 2), { name: 'length' })];
    expect(await new Rubric({ funcs }).score(context('a'))).toEqual({ reward: 1, metrics: { right: 1 } });
    expect(await new Rubric({ funcs }).score(context('b'))).toEqual({ reward: 1, metrics: { right: 1, length: 2 } });
    expect(await new RubricGroup([new Rubric({ funcs })]).score(context('a'))).toEqual({ reward: 1, metrics: { right: 1 } });
    await expect(new Rubric({ funcs: [reward(() => null as unknown as number, { name: 'none' })] }).score(context('a'))).rejects.toThrow(
      'Reward "none" gave null',
    );
  });

  it('wraps what a reward throws and keeps the cause', async () => {
    const cause = new TypeError('no such field');
    const rubric = new Rubric({
      funcs: [
        function broken() {
          throw cause;
        },
      ],
    });
    const error = await rubric.score(context('x')).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(RewardError);
    expect(error).toMatchObject({ message: 'Reward "broken" failed: TypeError: no such field', cause });
  });

  it('calls a metric a metric, and names the class of what it threw only where that says something', async () => {
    const thrown = {
      range: new RangeError('too long'),
      plain: new Error('no notes'),
      refused: new PolicyError('The server refused.'),
      text: 'a string',
    };
    const funcs = Object.entries(thrown).map(([name, cause]) => metric(() => Promise.reject(cause), { name }));
    const { metricErrors } = await new Rubric({ funcs }).score(context('x'));
    expect(Object.values(metricErrors!)).toEqual([
      'Metric "range" failed: RangeError: too long',
      'Metric "plain" failed: no notes',
      'Metric "refused" failed: The server refused.',
      'Metric "text" failed: a string',
    ]);
  });

  it('does not mistake an error that ends the run for the failure of one metric', async () => {
    const funcs = [
      reward(() => 1, { name: 'one' }),
      metric(() => Promise.reject(new PolicyError('Wrong key', { endsRun: true })), { name: 'judged' }),
    ];
    await expect(new Rubric({ funcs }).score(context('x'))).rejects.toMatchObject({ endsRun: true, message: 'Metric "judged" failed: Wrong key' });
  });

  it('loses only the value of a metric that fails, in a group too', async () => {
    const failing = () => {
      throw new TypeError('no notes');
    };
    const rubric = new Rubric({
      funcs: [
        metric(({ modelText }) => (modelText === 'a' ? failing() : 2), { name: 'own' }),
        metric(() => NaN, { name: 'none' }),
        groupReward(failing, { name: 'shared', weight: 0 }),
        groupReward(() => [1], { name: 'short', weight: 0 }),
        reward(length),
      ],
    });
    expect(await rubric.scoreGroup([context('a'), context('bb')])).toEqual([
      {
        reward: 1,
        metrics: { length: 1 },
        metricErrors: {
          own: 'Metric "own" failed: TypeError: no notes',
          none: 'Metric "none" gave NaN, which is not a finite number. Return a number for every rollout.',
          shared: 'Metric "shared" failed: TypeError: no notes',
          short: 'Group metric "short" gave 1 numbers for 2 rollouts. It must give a list with a number for each.',
        },
      },
      { reward: 2, metrics: { own: 2, length: 2 }, metricErrors: expect.objectContaining({ none: expect.any(String) }) },
    ]);
  });

  it('has no sum of a metric over several rubrics if one of them failed', async () => {
    const two = new Rubric({ funcs: [metric(() => 2, { name: 'calls' }), reward(length)] });
    const broken = new Rubric({ funcs: [metric(() => Infinity, { name: 'calls' })] });
    const score = await new RubricGroup([two, broken]).score(context('abc'));
    expect(score).toMatchObject({ reward: 3, metrics: { length: 3 }, metricErrors: { calls: expect.stringContaining('Infinity') } });
    expect(score.metrics).not.toHaveProperty('calls');
  });

  it('says why a reward failed, as far down as the causes go', async () => {
    const causes = [
      new TypeError('fetch failed', { cause: new Error('connect ECONNREFUSED 127.0.0.1:9') }),
      new TypeError('fetch failed', { cause: new AggregateError([new Error('connect ECONNREFUSED 127.0.0.1:9')], '') }),
    ];
    for (const cause of causes) {
      const judge = () => Promise.reject(cause);
      const failing = new Rubric({ funcs: [reward(judge, { name: 'judge' })] }).score(context('x'));
      await expect(failing).rejects.toThrow('Reward "judge" failed: TypeError: fetch failed (connect ECONNREFUSED 127.0.0.1:9)');
    }
  });

  it('refuses a group reward that misses a rollout', async () => {
    const rubric = new Rubric({ funcs: [groupReward(() => [1], { name: 'short' })] });
    await expect(rubric.scoreGroup([context('a'), context('b')])).rejects.toThrow('gave 1 numbers for 2 rollouts');
  });

  it('refuses functions without a name, names used twice and weights that are not numbers', () => {
    const refused = (...funcs: ConstructorParameters<typeof Rubric>[0]['funcs']) => {
      try {
        return new Rubric({ funcs });
      } catch (error) {
        return error;
      }
    };
    const broken = refused(reward(() => 1, { name: '' }));
    expect(broken).toBeInstanceOf(ConfigError);
    expect(broken).toMatchObject({ message: expect.stringContaining('Wrap it in reward(fn, { name })') });
    expect(refused(exactMatch, exactMatch)).toMatchObject({
      name: 'ConfigError',
      message: expect.stringContaining('Two rewards are called "exactMatch"'),
    });
    for (const weight of [NaN, Infinity]) {
      expect(refused(reward(exactMatch, { weight }))).toMatchObject({
        name: 'ConfigError',
        message: expect.stringContaining('weight of "exactMatch"'),
      });
    }
  });
});
