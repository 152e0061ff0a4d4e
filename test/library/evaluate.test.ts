import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Dataset } from '../../src/core/dataset.ts';
import { scriptedModel } from '../../src/core/builtin-judges.ts';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import type { Environment } from '../../src/core/environment.ts';
import { CancelledError } from '../../src/core/errors.ts';
import { JudgeRubric } from '../../src/core/judge-rubric.ts';
import { contentText } from '../../src/core/message.ts';
import type { Model } from '../../src/core/model.ts';
import { reward, Rubric } from '../../src/core/rubric.ts';
import { SingleTurnEnv } from '../../src/core/single-turn.ts';
import { defineTool } from '../../src/core/tool.ts';
import { ToolEnv } from '../../src/core/tool-use.ts';
import { evaluate } from '../../src/library/evaluate.ts';
import { openPolicy } from '../../src/library/open-policy.ts';
import { scoreEpisode } from '../../src/library/score-episode.ts';
import { startEpisode } from '../../src/library/start-episode.ts';
import { chatServer } from '../models/chat-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'library-'));
afterAll(() => rmSync(folder, { recursive: true }));

const rows = ['Paris', 'Rome', 'Oslo'].map((answer, i) => ({ exampleId: i, prompt: [{ role: 'user' as const, content: `capital ${i}?` }], answer }));
const dataset = new Dataset('capitals', rows);
const exact = reward(({ row, modelText }) => Number(modelText === row['answer']), { name: 'exact' });
const capitals = () => new SingleTurnEnv({ id: 'capitals-here', train: dataset, eval: dataset, rubric: new Rubric({ funcs: [exact] }) });

describe('evaluate', () => {
  it('plays a server with the defaults of vf-eval, records the run, and continues it', async () => {
    await using server = await chatServer(({ messages }) => (messages.at(-1)!.content.includes('1') ? 'Rome' : 'Bern'));
    const events: string[] = [];
    const policy = { baseUrl: `${server.url}/v1`, model: 'm', clientType: 'chat' };
    const common = { environment: capitals(), policy, output: folder, variables: {} };
    const { summary, rollouts, directory } = await evaluate({ ...common, rows: 2, onEvent: ({ type }) => events.push(type) });
    expect(summary).toMatchObject({ complete: true, policyKind: 'chat', rollouts: { planned: 2, finished: 2, errored: 0 }, reward: { value: 0.5 } });
    expect(rollouts.map((rollout) => [rollout.rolloutId, rollout.reward])).toEqual([
      ['0/0', 0],
      ['1/0', 1],
    ]);
    expect(events.filter((type) => type !== 'active')).toEqual(['started', 'rollout', 'rollout']);
    const metadata = JSON.parse(readFileSync(join(directory, 'metadata.json'), 'utf8')) as Record<string, unknown>;
    expect(metadata).toMatchObject({ env_id: 'capitals-here', num_examples: 2, rollouts_per_example: 1 });
    const resumed = await evaluate({ ...common, rows: 3, resume: directory });
    expect(resumed.directory).toBe(directory);
    expect(resumed.rollouts.map((rollout) => rollout.reward)).toEqual([0, 1, 0]);
  });

  it('plays a client of the caller and leaves it open, and takes models of the caller for roles', async () => {
    const client = new ScriptedClient({ kind: 'chat', turns: ['Paris'] });
    const asked: string[] = [];
    const judge: Model = scriptedModel({
      name: 'own-judge',
      replies: (messages) => {
        asked.push(contentText(messages.at(-1)!.content));
        return JSON.stringify({ reason: 'none', score: 0.25 });
      },
    });
    const judged = () =>
      new SingleTurnEnv({
        id: 'judged',
        train: dataset,
        eval: dataset,
        rubric: new JudgeRubric(),
        roles: { judge: { about: 'scores the answer', default: null } },
      });
    const common = { environment: judged(), policy: client, output: folder, variables: {} };
    const { summary, rollouts } = await evaluate({ ...common, rows: 2, roles: { judge } });
    expect(rollouts.map((rollout) => rollout.reward)).toEqual([0.25, 0.25]);
    expect(summary.model).toBe(client.name);
    expect(asked).toHaveLength(2);
    const { rollouts: third } = await evaluate({ ...common, environment: capitals(), rows: 1 });
    expect(third).toHaveLength(1);
    await expect(evaluate({ ...common, rows: 2 })).rejects.toThrow(/^The environment has a role judge/);
    await expect(evaluate({ ...common, rows: 2, roles: { judje: judge } })).rejects.toThrow(
      /^The environment has no role judje \(did you mean judge\?\)/,
    );
  });

  it('asks the servers that play roles', async () => {
    await using policy = await chatServer(() => 'Paris');
    await using judge = await chatServer(() => '{"reason": "none", "score": 1}');
    const judged = new SingleTurnEnv({
      id: 'judged',
      train: dataset,
      eval: dataset,
      rubric: new JudgeRubric(),
      roles: { judge: { about: 'scores the answer', default: null } },
    });
    const { summary } = await evaluate({
      environment: judged,
      policy: { baseUrl: `${policy.url}/v1`, model: 'm', clientType: 'chat' },
      roles: { judge: { baseUrl: `${judge.url}/v1`, model: 'j', maxConcurrent: 1 } },
      rows: 3,
      output: folder,
      variables: {},
    });
    expect(summary).toMatchObject({ reward: { value: 1 }, roles: { judge: { calls: 3 } } });
  });

  it.each<[object, RegExp]>([
    [{ row: 3 }, /^evaluate has no option row \(did you mean rows\?\)\. Leave it out; it has environment, /],
    [{ policy: 'embedded' }, /^policy must be given an object, got "embedded"\. It has the options languageModel, provider, /],
    [{ environment: {} }, /^evaluate needs an environment that loadEnvironment gave: this one cannot be used, because its id is not/],
    [{ policy: { baseURL: 'http://h/v1' } }, /^policy has no option baseURL \(did you mean baseUrl\?\)/],
    [{ args: { a: 1 } }, /^evaluate takes arguments for an environment that it loads/],
    [{ policy: { provider: 'embedded', baseUrl: 'http://h/v1' } }, /^baseUrl cannot be combined with provider: "embedded"/],
    [{ policy: new ScriptedClient({ kind: 'chat', turns: [] }), rows: 0 }, /^rows must be an integer of at least 1, or -1 for all, got 0/],
    [{ rows: '3' }, /^evaluate takes a number as rows, got a string$/],
    [{ strictStops: 'yes' }, /^evaluate takes true or false as strictStops, got a string$/],
    [{ maxWaitMs: '3' }, /^evaluate takes a number from 0 up as maxWaitMs, got a string$/],
    [{ maxWaitMs: -1 }, /^evaluate takes a number from 0 up as maxWaitMs, got -1$/],
    [{ resume: 3 }, /^evaluate takes a string, true or false as resume, got 3$/],
    [{ stateColumns: ['a', 3] }, /^evaluate takes a list of strings as stateColumns, got a list$/],
    [{ signal: {} }, /^evaluate takes an AbortSignal as signal, got an object$/],
    [{ onNotice: null }, /^evaluate takes a function as onNotice, got null$/],
    [{ sampling: [] }, /^evaluate takes an object as sampling, got an empty list$/],
    [{ policy: null }, /^policy must be given an object, got null\./],
    [{ policy: { baseUrl: 'http://h/v1', headers: { a: 3 } } }, /^policy takes an object whose values are strings as headers, got an object$/],
    [{ policy: { baseUrl: 'http://h/v1', price: { input: 1, output: 2 } } }, /^price has no cached\. Give input, cached and output/],
    [{ roles: { judge: { timeoutMs: '5' } } }, /^The role judge takes a number as timeoutMs, got a string$/],
    [{ sampling: { n: 3 } }, /^sampling cannot set "n": use rolloutsPerRow for several/],
  ])('refuses %j in the words of code', async (options, message) => {
    await expect(evaluate({ environment: capitals(), output: folder, variables: {}, ...options })).rejects.toThrow(message);
  });

  it('rejects with what an async callback rejects with', async () => {
    const onEvent = (): unknown => Promise.reject(new Error('my table is full'));
    const policy = new ScriptedClient({ kind: 'chat', turns: [] });
    await expect(evaluate({ environment: capitals(), policy, output: folder, variables: {}, onEvent })).rejects.toThrow('my table is full');
  });

  it('rejects after an abort, and makes no folder', async () => {
    const output = join(folder, 'aborted');
    const running = evaluate({
      environment: capitals(),
      policy: new ScriptedClient({ kind: 'chat', turns: [] }),
      output,
      signal: AbortSignal.abort(),
    });
    await expect(running).rejects.toThrow(CancelledError);
    expect(existsSync(output)).toBe(false);
  });
});

describe('openPolicy', () => {
  it('opens the model in this process', async () => {
    await using policy = await openPolicy({ provider: 'embedded', model: 'nano-base' }, { variables: {} });
    expect(policy).toMatchObject({ model: 'nano-base', kind: 'embedded' });
    expect(policy.client.capabilities.kind).toBe('tokens');
  });

  it('plays an environment by its name, which closes with the policy', async () => {
    await using policy = await openPolicy({}, { environment: 'search-r1', variables: {} });
    expect(policy.kind).toBe('baseline');
  });

  it('opens the models of a program, and refuses others', async () => {
    const play = () => Promise.reject(new Error('not played'));
    const program = Object.assign(capitals(), { play }) as object as Environment;
    await using policy = await openPolicy({}, { environment: program, variables: {} });
    expect(policy.kind).toBe('program');
    const other = openPolicy({ provider: 'embedded' }, { environment: program, variables: {} });
    await expect(other).rejects.toThrow(/^provider has no effect: capitals-here asks /);
  });

  it.each<[unknown, object, RegExp]>([
    ['embedded', {}, /^policy must be given an object, got "embedded"/],
    [{}, { sed: 1 }, /^openPolicy has no option sed \(did you mean seed\?\)/],
    [{}, { maxWaitMs: '1h' }, /^openPolicy takes a number from 0 up as maxWaitMs, got a string$/],
    [{}, { environment: 3 }, /^openPolicy needs an environment .* because it is 3$/],
  ])('refuses %j with %j', async (spec, options, message) => {
    await expect(openPolicy(spec as object, { variables: {}, ...options })).rejects.toThrow(message);
  });

  it('waits for a rate limit no longer than it is told, also outside of a run', async () => {
    await using server = await chatServer(() => ({ status: 429, headers: { 'retry-after': '30' }, body: { error: { message: 'slow down' } } }));
    const spec = { baseUrl: `${server.url}/v1`, model: 'm', clientType: 'chat' };
    await using policy = await openPolicy(spec, { maxWaitMs: 0, variables: {} });
    await using lease = await policy.client.lease(new AbortController().signal);
    const asked = lease.generate({
      prompt: [{ role: 'user', content: 'hi' }],
      maxNewTokens: 5,
      sampling: { temperature: 1, topP: 1 },
      stop: [],
      signal: new AbortController().signal,
    } as never);
    await expect(asked).rejects.toThrow(/asks for a wait of 30 s, and maxWaitMs allows 0 s\. Lower maxConcurrent, or raise maxWaitMs\.$/);
  });

  it('refuses a key with a provider that takes none', async () => {
    await expect(openPolicy({ provider: 'embedded', apiKey: 'sk-1' }, { variables: {} })).rejects.toThrow(/^apiKey cannot be combined/);
  });
});

describe('startEpisode and scoreEpisode', () => {
  const add = defineTool({
    name: 'add',
    description: 'Adds.',
    parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
    execute: ({ a, b }) => String(Number(a) + Number(b)),
  });
  const sumRows = new Dataset('sums', [{ exampleId: 0, prompt: [{ role: 'user' as const, content: '1 + 2?' }], answer: '3' }]);
  const sums = (calls: 'text' | 'native' = 'text') =>
    new ToolEnv({
      id: 'sums',
      calls,
      train: sumRows,
      eval: sumRows,
      tools: [add],
      rubric: new Rubric({ funcs: [reward(({ row, segments }) => Number(segments.at(-1)!.text === row['answer']), { name: 'exact' })] }),
    });

  it('refuses a call of another shape in one sentence', async () => {
    const environment = sums();
    await using episode = await startEpisode(environment, environment.train.at(0));
    const call = { id: 'c1', name: 'add', args: { a: 1, b: 2 } } as never;
    await expect(episode.step({ role: 'assistant', content: '', toolCalls: [call] })).rejects.toThrow(
      /^A tool call of a message is \{ id, name, arguments \}/,
    );
  });

  it('takes no further turn once one has failed, and has no reward then', async () => {
    let turns = 0;
    class Breaking extends SingleTurnEnv {
      override async start(...given: Parameters<SingleTurnEnv['start']>): ReturnType<SingleTurnEnv['start']> {
        const episode = await super.start(...given);
        return Object.assign(Object.create(episode) as typeof episode, {
          keep: episode.keep.bind(episode),
          step: () => {
            turns += 1;
            throw new Error('the index is gone');
          },
        });
      }
    }
    const environment = new Breaking({ id: 'breaking', train: dataset, eval: dataset, rubric: new Rubric({ funcs: [exact] }) });
    const row = environment.eval.at(0);
    await using episode = await startEpisode(environment, row);
    await expect(episode.step(3 as never)).rejects.toThrow(/^A turn of the model is its text/);
    await expect(episode.step('Paris')).rejects.toThrow('the index is gone');
    await expect(episode.step('Paris')).rejects.toThrow(/^The episode failed at an earlier turn, so it has no reward\. Start another one\./);
    await expect(scoreEpisode(environment, row, episode)).rejects.toThrow(/not over/);
    expect(turns).toBe(1);
  });

  it('says that the counts of tool calls need the state', async () => {
    const environment = sums();
    const score = await scoreEpisode(environment, environment.eval.at(0), { messages: [{ role: 'assistant', content: '3' }] });
    const errors = Object.entries(score.metricErrors ?? {});
    expect(errors.map(([name]) => name)).toEqual(['total_tool_calls', 'bad_tool_calls', 'tool_errors', 'add_calls']);
    for (const [, error] of errors) expect(error).toMatch(/the calls are counted in the episode's state, which is missing\. Pass it as "state"\.$/);
  });

  it('plays native tool calls, and answers each by its id', async () => {
    const environment = sums('native');
    const row = environment.train.at(0);
    await using episode = await startEpisode(environment, row);
    expect(episode.tools.map(({ name }) => name)).toEqual(['add']);
    await episode.step({ role: 'assistant', content: '', toolCalls: [{ id: 'c1', name: 'add', arguments: '{"a": 1, "b": 2}' }] });
    expect(episode.stop).toBeNull();
    expect(episode.messages.at(-1)).toEqual({ role: 'tool', toolCallId: 'c1', content: '3' });
    await episode.step('3');
    expect(episode.stop).not.toBeNull();
    expect(await scoreEpisode(environment, row, episode)).toMatchObject({ reward: 1 });
  });

  it('scores plain messages, and never turns a failed reward into 0', async () => {
    const environment = capitals();
    const row = environment.eval.at(0);
    expect(await scoreEpisode(environment, row, { messages: [{ role: 'assistant', content: 'Paris' }] })).toMatchObject({ reward: 1 });
    expect(await scoreEpisode(environment, row, { messages: [{ role: 'assistant', content: 'Rome' }] })).toMatchObject({ reward: 0 });
    const failing = reward(
      () => {
        throw new Error('no network');
      },
      { name: 'failing' },
    );
    const broken = new SingleTurnEnv({ id: 'broken', train: dataset, eval: dataset, rubric: new Rubric({ funcs: [failing] }) });
    await expect(scoreEpisode(broken, row, { messages: [{ role: 'assistant', content: 'Paris' }] })).rejects.toThrow(/no network/);
    const refused: [object, RegExp][] = [
      [{ messages: 'x' }, /^The messages of an episode must be a list/],
      [{ messages: [{ role: 'asistant', content: 'Paris' }] }, /^A message of an episode is \{ role, content \} with the role system, .*asistant/],
      [{ messages: [], stop: 3 }, /^The stop of an episode must be a string/],
      [{ mesages: [] }, /^An episode to score has no option mesages \(did you mean messages\?\)/],
    ];
    for (const [episode, message] of refused) await expect(scoreEpisode(environment, row, episode)).rejects.toThrow(message);
    await expect(scoreEpisode(environment, undefined as never, { messages: [] })).rejects.toThrow(/^scoreEpisode needs a row/);
    await expect(startEpisode(environment, row, { sed: 1 } as object)).rejects.toThrow(/^startEpisode has no option sed/);
    await expect(scoreEpisode(environment, row, {})).rejects.toThrow(/needs segments, or the messages/);
    await expect(scoreEpisode(environment, row, { messages: [] }, { signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
  });
});
