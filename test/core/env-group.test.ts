import { describe, expect, it } from 'vitest';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { AgentEnv, type AgentOptions } from '../../src/core/agent-env.ts';
import { exactMatchJudge, judgeBy } from '../../src/core/builtin-judges.ts';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import { EnvGroup } from '../../src/core/env-group.ts';
import type { AgentPolicy, Environment, Episode } from '../../src/core/environment.ts';
import { ConfigError } from '../../src/core/errors.ts';
import { contentText } from '../../src/core/message.ts';
import type { RoleDeclaration } from '../../src/core/model.ts';
import { type EnvResponse, type EpisodeState, MultiTurnEnv } from '../../src/core/multi-turn.ts';
import { metric, reward, Rubric } from '../../src/core/rubric.ts';
import { Random } from '../../src/core/random.ts';
import { RubricGroup } from '../../src/core/rubric-group.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts, type RunOptions } from '../../src/rollouts/run-rollouts.ts';

class EchoEnv extends MultiTurnEnv {
  readonly closed: string[] = [];

  constructor(name: string, options: { readonly tokens: number; readonly turnFormat: 'chat' | 'continuation'; readonly rubric: Rubric }) {
    const { tokens, turnFormat, rubric } = options;
    const rows = [1, 2].map((exampleId) => ({ exampleId, prompt: [{ role: 'user' as const, content: `${name} ${exampleId}` }] }));
    const data = new Dataset(name, rows);
    super({ id: name, train: data, eval: data, rubric, turnFormat, limits: { responseTokens: tokens }, notices: ['mind the gap'] });
  }

  protected setupState(row: { readonly exampleId: string | number }): EpisodeState {
    return { turns: 0, own: row.exampleId };
  }

  protected envResponse(): EnvResponse {
    return { done: true };
  }

  override async close(): Promise<void> {
    this.closed.push(this.id);
  }
}

const length = ({ modelText }: { modelText: string }) => modelText.length;
const short = () =>
  new EchoEnv('short', { tokens: 2, turnFormat: 'continuation', rubric: new Rubric({ funcs: [reward(length, { name: 'length' })] }) });
const long = () =>
  new EchoEnv('long', {
    tokens: 6,
    turnFormat: 'chat',
    rubric: new Rubric({ funcs: [reward(() => 100, { name: 'hundred' }), metric(({ row }) => Number(row.exampleId), { name: 'row' })] }),
  });

async function play(environment: Environment, independentScoring = false, more: Partial<RunOptions<Row>> = {}): Promise<Rollout[]> {
  const groups = [...environment.eval].map((row) => ({ row, indices: [0, 1] }));
  const client = new ScriptedClient({ turns: () => 'abcdefgh', tokenizer: 'code-points' });
  const { signal } = new AbortController();
  const options = { environment, client, sampling: { temperature: 1, topP: 1 }, maxTokens: null, maxConcurrent: 2, timeoutMs: null, seed: 0, signal };
  const rollouts: Rollout[] = [];
  for await (const group of runRollouts(groups, { ...options, independentScoring, ...more })) rollouts.push(...group.rollouts);
  return rollouts.toSorted((a, b) => (a.rolloutId < b.rolloutId ? -1 : 1));
}

/** Asks once; a sub-agent asks once more, whose branch earns 7. */
const agent = (more: Partial<AgentOptions<Row>> = {}) => {
  const row = (exampleId: number) => ({ exampleId, prompt: [{ role: 'user' as const, content: `agent ${exampleId}` }] });
  const data = new Dataset<Row>('agent', [1, 2].map(row));
  const ask = async (policy: AgentPolicy, text: string) => {
    const prompt = [{ role: 'user' as const, content: [{ type: 'text' as const, text }] }];
    const { content } = await policy.languageModel().doGenerate({ prompt });
    return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  };
  return new AgentEnv({
    id: 'asking',
    train: data,
    eval: data,
    rubric: new Rubric({ funcs: [reward(({ row: own, state }) => Number(own.exampleId) + Number(state['heard'] === 'abcd'), { name: 'told' })] }),
    limits: { responseTokens: 4 },
    maxTurns: 2,
    branchReward: ({ role, row: own }) => (role === 'helper' ? Number(own.exampleId) * 10 : null),
    run: async ({ row: own, policy }) => {
      const heard = await ask(policy, contentText(own.prompt[0]!.content));
      await ask(policy.as('helper'), 'help');
      return { heard };
    },
    ...more,
  });
};

const OPTIONS = { random: Random.fromSeed(0), signal: new AbortController().signal };

describe('EnvGroup', () => {
  it('plays agents next to episodes: each rollout with the limits, the rubric, the original row and the branch rewards of its own environment', async () => {
    const group = new EnvGroup({ id: 'mixed', environments: { long: long(), agent: agent() } });
    expect(group).toMatchObject({ asksPolicy: true, turnFormat: 'chat' });
    const rollouts = await play(group);
    const shown = rollouts.map(({ row, reward: earned, metrics, branches, turns }) => [
      row.exampleId,
      earned,
      metrics,
      turns,
      branches.map(({ role, reward: own, segments }) => [role ?? null, own ?? null, segments.at(-1)!.text]),
    ]);
    const asked = (id: number): readonly unknown[] => [
      `agent:${id}`,
      id + 1,
      { told: id + 1 },
      2,
      [
        [null, null, 'abcd'],
        ['helper', id * 10, 'abcd'],
      ],
    ];
    const answered = (id: number): readonly unknown[] => [`long:${id}`, 100, { hundred: 100, row: id }, 1, [[null, null, 'abcdef']]];
    expect(shown).toEqual([1, 1, 2, 2].map(asked).concat([1, 1, 2, 2].map(answered)));
  });

  it('ends the rollout of an agent by its own limits, and takes its failures as that agent says', async () => {
    const throws = async () => {
      throw new Error('the tool broke');
    };
    const environments = {
      few: agent({ maxTurns: 1 }),
      broken: agent({ run: throws }),
      scored: agent({ run: throws, failures: 'score' }),
      long: long(),
    };
    const rollouts = await play(new EnvGroup({ id: 'mixed', environments }));
    const of = (task: string) => rollouts.find(({ row }) => row.task === task)!;
    expect(of('few')).toMatchObject({ stop: 'max_turns_reached', error: null, turns: 1 });
    expect(of('broken')).toMatchObject({ reward: null, error: { message: 'the tool broke' } });
    expect(of('scored')).toMatchObject({ stop: 'agent_failed', reward: 1, state: { failure: 'the tool broke' } });
    expect(of('long')).toMatchObject({ reward: 100, stop: 'completed' });
  });

  it('refuses an agent that asks models of its own, and starts no episode of one', async () => {
    expect(() => new EnvGroup({ id: 'mixed', environments: { own: agent({ asksPolicy: false }) } })).toThrow(
      'The environment group mixed has own, which asks models of its own and not the policy of the group. Evaluate it alone.',
    );
    const group = new EnvGroup({ id: 'mixed', environments: { agent: agent() } });
    const start = group.start(group.eval.at(0), OPTIONS);
    await expect(start).rejects.toThrow('asking is an agent, which plays its rows itself and has no episodes.');
  });

  it('says how each of its environments does without images, if all of them can', () => {
    class Seeing extends EchoEnv {
      override get needs() {
        return ['images'] as const;
      }
    }
    const seeing = (withoutImages?: string) => {
      const environment = new Seeing('seeing', { tokens: 2, turnFormat: 'chat', rubric: new Rubric({ funcs: [] }) });
      return Object.assign(environment, withoutImages !== undefined && { withoutImages });
    };
    const group = (environments: Record<string, Environment>) => new EnvGroup({ id: 'mixed', environments: { words: long(), ...environments } });
    expect(group({ pages: seeing('set observations to "ocr"') }).withoutImages).toBe('for pages set observations to "ocr"');
    expect(group({ pages: seeing('set observations to "ocr"'), photos: seeing() }).withoutImages).toBeUndefined();
    expect(group({}).withoutImages).toBeUndefined();
  });

  it('routes rows to their environments, each with its own limits, format and rubric', async () => {
    const group = new EnvGroup({ id: 'mixed', environments: { short: short(), long: long() } });
    expect([...group.eval].map(({ exampleId, task }) => [exampleId, task])).toEqual([
      ['short:1', 'short'],
      ['long:1', 'long'],
      ['short:2', 'short'],
      ['long:2', 'long'],
    ]);
    const rollouts = await play(group);
    expect(rollouts.map(({ rolloutId, reward: value, metrics, turnFormat, row }) => [rolloutId, value, metrics, turnFormat, row.task])).toEqual([
      ['long:1/0', 100, { hundred: 100, row: 1 }, 'chat', 'long'],
      ['long:1/1', 100, { hundred: 100, row: 1 }, 'chat', 'long'],
      ['long:2/0', 100, { hundred: 100, row: 2 }, 'chat', 'long'],
      ['long:2/1', 100, { hundred: 100, row: 2 }, 'chat', 'long'],
      ['short:1/0', 2, { length: 2 }, 'continuation', 'short'],
      ['short:1/1', 2, { length: 2 }, 'continuation', 'short'],
      ['short:2/0', 2, { length: 2 }, 'continuation', 'short'],
      ['short:2/1', 2, { length: 2 }, 'continuation', 'short'],
    ]);
    expect(rollouts[0]!.state).toMatchObject({ own: 1 });
    expect(group).toMatchObject({ turnFormat: 'chat', limits: { responseTokens: 6 }, notices: ['short: mind the gap', 'long: mind the gap'] });
    expect(group.rubric.names).toEqual(['length', 'hundred', 'row']);
    expect(group.rubric.rewardNames).toEqual(['length', 'hundred']);
  });

  it('lets the rows of its environments take turns, until each has given all: any first rows are a fair share, and they can be played', async () => {
    const more = Object.assign(long(), {
      eval: new Dataset(
        'more',
        [1, 2, 3, 4].map((exampleId) => ({ exampleId, prompt: [] })),
      ),
    });
    const group = new EnvGroup({ id: 'mixed', environments: { a: short(), b: more, c: short() } });
    const ids = (rows: Dataset) => [...rows].map(({ exampleId }) => exampleId);
    expect(ids(group.eval)).toEqual(['a:1', 'b:1', 'c:1', 'a:2', 'b:2', 'c:2', 'b:3', 'b:4']);
    expect(ids(group.train)).toEqual(['a:1', 'b:1', 'c:1', 'a:2', 'b:2', 'c:2']);
    expect(ids(group.eval.take(4))).toEqual(['a:1', 'b:1', 'c:1', 'a:2']);
    const shuffled = ids(group.eval.shuffle(Random.fromSeed(1)));
    expect(shuffled).toEqual(ids(group.eval.shuffle(Random.fromSeed(1))));
    expect(new Set(shuffled)).toEqual(new Set(ids(group.eval)));
    const first = group.eval.take(2).at(1);
    const episode = await group.start(first, { random: Random.fromSeed(0), signal: new AbortController().signal });
    expect(episode.turnFormat).toBe('chat');
    await episode[Symbol.asyncDispose]();
  });

  it('lets each environment handle a full context in its own way, and names the argument of its limit', async () => {
    class Full extends EchoEnv {
      readonly overlong = 'upstream';
      readonly limitArguments = { contextTokens: 'max_context' };

      constructor() {
        super('full', { tokens: 2, turnFormat: 'continuation', rubric: new Rubric({ funcs: [reward(length, { name: 'length' })] }) });
        Object.assign(this.limits, { contextTokens: 3 });
      }
    }
    const alone = await play(new Full());
    expect(alone.map(({ isCut, stop }) => [isCut, stop])).toEqual(Array.from({ length: 4 }, () => [true, 'completed']));
    const group = new EnvGroup({ id: 'mixed', environments: { full: new Full(), long: long() } });
    const grouped = (await play(group)).filter(({ row }) => row.task === 'full');
    expect(grouped.map(({ isCut, stop }) => [isCut, stop])).toEqual(Array.from({ length: 4 }, () => [true, 'completed']));
    expect(group.limitArguments).toEqual({ contextTokens: 'max_context (full)' });
    expect(group.turnFormats).toEqual(['continuation', 'chat']);
  });

  it('says which reward of an environment the deadline passed in', async () => {
    const slow = new EchoEnv('slow', {
      tokens: 2,
      turnFormat: 'chat',
      rubric: new Rubric({ funcs: [reward(() => new Promise<never>(() => {}), { name: 'judge' })] }),
    });
    const group = new EnvGroup({ id: 'mixed', environments: { slow } });
    const [rollout] = await play(group, false, { scoringTimeoutMs: 20 });
    expect(rollout!.error!.message).toContain('The rewards were not computed within 0.02 s: reward "judge" was being computed.');
  });

  it('gives episodes that V8 can dispose, which takes no bound function', async () => {
    const group = new EnvGroup({ id: 'mixed', environments: { long: long() } });
    const dispose: unknown = (await group.start(group.eval.at(0), OPTIONS))[Symbol.asyncDispose];
    expect((dispose as { readonly name: string }).name).not.toMatch(/^bound /);
  });

  it('plays episodes that are frozen', async () => {
    class Frozen extends EchoEnv {
      override async start(...given: Parameters<EchoEnv['start']>): Promise<Episode> {
        return Object.freeze({ ...(await super.start(...given)), limits: undefined as never });
      }
    }
    const frozen = new Frozen('frozen', { tokens: 2, turnFormat: 'chat', rubric: new Rubric({ funcs: [reward(length, { name: 'length' })] }) });
    const rollouts = await play(new EnvGroup({ id: 'mixed', environments: { frozen } }));
    expect(rollouts.map(({ error, reward: value }) => [error, value])).toEqual(Array.from({ length: 4 }, () => [null, 2]));
  });

  it('closes all of its environments', async () => {
    const [a, b] = [short(), long()];
    await new EnvGroup({ id: 'mixed', environments: { a, b } }).close();
    expect([a.closed, b.closed]).toEqual([['short'], ['long']]);
  });

  it('refuses a rubric of another class, which it cannot route', () => {
    const own = { names: [], score: () => {}, scoreGroup: () => {} } as unknown as Rubric;
    const stray = new EchoEnv('stray', { tokens: 2, turnFormat: 'chat', rubric: own });
    expect(() => new EnvGroup({ id: 'mixed', environments: { short: short(), stray } })).toThrow(
      'The rubric of stray does not extend Rubric, as it must in the environment group mixed.',
    );
  });

  it('refuses a row that is not its own, and an empty group', async () => {
    const group = new EnvGroup({ id: 'mixed', environments: { short: short() } });
    const other = { exampleId: 1, prompt: [] };
    await expect(group.start(other, { random: null as never, signal: new AbortController().signal })).rejects.toThrow('is not a row of mixed');
    for (const wrong of [{ environments: {} }, { envs: [short()] }, { environments: [short()] }, { environments: null }]) {
      const construct = () => new EnvGroup({ id: 'none', ...wrong } as unknown as ConstructorParameters<typeof EnvGroup>[0]);
      expect(construct).toThrow(ConfigError);
      expect(construct).toThrow('The environment group none has no environments. Pass { id, environments: { task: environment, ... } }');
    }
  });
});

describe('RubricGroup', () => {
  it('adds rewards and metrics of one name, and fails a member when one of its rubrics does', async () => {
    const half = new Rubric({ funcs: [reward(length, { name: 'length', weight: 0.5 })] });
    const rubric = new RubricGroup([half, new Rubric({ funcs: [reward(length, { name: 'length' }), metric(() => 7, { name: 'seven' })] })]);
    expect(rubric.names).toEqual(['length', 'seven']);
    const environment = new EchoEnv('both', { tokens: 4, turnFormat: 'chat', rubric });
    expect((await play(environment))[0]).toMatchObject({ reward: 6, metrics: { length: 8, seven: 7 } });
    const broken = new RubricGroup([half, new Rubric({ funcs: [reward(() => NaN, { name: 'broken' })] })]);
    expect((await play(new EchoEnv('both', { tokens: 4, turnFormat: 'chat', rubric: broken })))[0]).toMatchObject({
      reward: null,
      error: { type: 'RewardError' },
    });
    expect(rubric.extend([metric(() => 1, { name: 'one' })]).names).toEqual(['length', 'seven', 'one']);
  });

  describe('of environments that declare the same role', () => {
    const declaring = (declaration: RoleDeclaration): Environment => Object.assign(short(), { roles: { judge: declaration } });
    const grouped = (...declarations: readonly RoleDeclaration[]) =>
      new EnvGroup({ id: 'mixed', environments: Object.fromEntries(declarations.map((one, i) => ['abc'[i]!, declaring(one)])) }).roles;
    const builtin = (model = exactMatchJudge(), about = 'scores answers') => ({ about, default: 'builtin', builtin: model }) as const;

    it('has one role when each brings the judge that compares with the reference answer', () => {
      const first = builtin();
      expect(grouped(first, builtin(), builtin(exactMatchJudge(), 'grades'))).toEqual({ judge: first });
    });

    it('refuses two judges that may differ, with both environments and the remedy', () => {
      const judge = () => judgeBy(() => ({ score: 1, reason: '' }), 'own');
      expect(() => grouped(builtin(), builtin(exactMatchJudge({ match: 'contains' })))).toThrow(
        'The environments a and b of the group both declare the role "judge", one with the builtin model exact-match and one with the builtin model contains-match. Declare the same',
      );
      expect(() => grouped(builtin(judge()), builtin(judge()))).toThrow(
        'a and b of the group both declare the role "judge", each with a builtin model own of its own. Make the model once, in a module that both import',
      );
      expect(() => grouped(builtin(), { about: 'scores answers', default: null })).toThrow(
        'with the defaults "builtin" and null. Give both the same default',
      );
      expect(() => grouped({ about: 'a', default: null }, { ...builtin(), default: null })).toThrow(
        'one with no builtin model and one with the builtin model exact-match',
      );
    });
  });
});
