import { describe, expect, it } from 'vitest';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { StepContext, StepResult } from '../../src/core/environment.ts';
import { ConfigError, ModelError, RetrievalError, ToolError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { Rubric } from '../../src/core/rubric.ts';
import { defineTool, type Tool } from '../../src/core/tool.ts';
import { ToolEnv, type ToolState } from '../../src/core/tool-use.ts';

class Outage extends Error {}
const add = defineTool({
  name: 'add',
  description: 'Adds two numbers',
  parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'], additionalProperties: false },
  execute: ({ a, b }) => {
    if (a === 13) throw new RangeError('thirteen is not served');
    if (a === 14) throw new Outage('the calculator is down');
    return { sum: (a as number) + (b as number) };
  },
});
const row: Row = { exampleId: 0, prompt: [{ role: 'user', content: 'What is 1 + 2?' }] };
const environment = new ToolEnv({
  id: 'sums',
  eval: new Dataset('sums', [row]),
  rubric: new Rubric({ funcs: [] }),
  tools: [add],
  stopErrors: [Outage],
  maxTurns: 3,
});
const { signal } = new AbortController();
const turn: StepContext = { finish: 'stop', stopReason: null, toolCalls: [], signal };
const textOf = ({ observation }: StepResult) => (observation !== null && 'text' in observation ? observation.text : null);
const start = () => environment.start(row, { random: Random.fromSeed(0), signal });
const call = (json: string) => `<tool_call>\n${json}\n</tool_call>`;

describe('ToolEnv', () => {
  it('lists its tools in the system prompt', async () => {
    const [system, user] = (await start()).prompt;
    expect(system!.role).toBe('system');
    expect(system!.content).toContain('"name":"add"');
    expect(user).toEqual(row.prompt[0]);
  });

  it('runs the calls in order and answers each', async () => {
    const episode = await start();
    const { observation, stop } = await episode.step(
      call('{"name": "add", "arguments": {"a": 1, "b": 2}}') + call('{"name": "add", "arguments": {"a": 5, "b": 5}}'),
      turn,
    );
    expect(textOf({ observation, stop: null })).toBe('<tool_response>\n{"sum":3}\n</tool_response>\n<tool_response>\n{"sum":10}\n</tool_response>');
    expect(stop).toBe(null);
    expect(episode.state).toMatchObject({ calls: { add: 2 }, badCalls: 0, turns: 1 });
  });

  it.each([
    ['{"name": "add", "arguments": ', 'the call is not JSON'],
    ['{"arguments": {}}', 'the call has no "name"'],
    ['{"name": "add", "arguments": [1]}', '"arguments" is not an object'],
    ['{"name": "sub", "arguments": {}}', 'there is no tool "sub"; the tools are add'],
    ['{"name": "add", "arguments": {"a": "1", "b": 2}}', 'the arguments of "add" are wrong: /a must be number'],
    ['null', 'the call has no "name"'],
  ])('answers the bad call %s and continues', async (json, problem) => {
    const episode = await start();
    const { observation, stop } = await episode.step(call(json), turn);
    expect(textOf({ observation, stop: null })).toContain(`Error: ${problem}`);
    expect(stop).toBe(null);
    expect(episode.state).toMatchObject({ badCalls: 1, calls: {} });
  });

  it('shows the model what a tool throws, but ends the rollout on an outage', async () => {
    const episode = await start();
    const { observation } = await episode.step(call('{"name": "add", "arguments": {"a": 13, "b": 2}}'), turn);
    expect(textOf({ observation, stop: null })).toContain('Error: thirteen is not served');
    expect(episode.state).toMatchObject({ toolErrors: 1, badCalls: 0, calls: { add: 1 } });
    await expect(episode.step(call('{"name": "add", "arguments": {"a": 14, "b": 2}}'), turn)).rejects.toThrow(ToolError);
  });

  it.each([
    ['a model by role', new ModelError('the critic is down', { role: 'critic' })],
    ['a retriever', new RetrievalError('no index')],
  ])('fails the rollout where %s fails within a tool: the policy has no part in it', async (_, outage) => {
    const tool = defineTool({
      name: 'ask',
      description: 'Asks a server.',
      parameters: { type: 'object' },
      execute: () => {
        throw outage;
      },
    });
    for (const stopErrors of [[], [ModelError, RetrievalError]]) {
      const asking = new ToolEnv({ id: 'asking', eval: new Dataset('rows', [row]), rubric: new Rubric({ funcs: [] }), tools: [tool], stopErrors });
      const episode = await asking.start(row, { random: Random.fromSeed(0), signal });
      await expect(episode.step(call('{"name": "ask"}'), turn)).rejects.toBe(outage);
    }
  });

  it('adds its description to a system message of parts, whose image stays', async () => {
    const image = { type: 'image', image: { sha256: 'a', mediaType: 'image/png', width: 1, height: 1 } } as const;
    const shown: Row = { ...row, prompt: [{ role: 'system' as const, content: [{ type: 'text', text: 'Look.' } as const, image] }, ...row.prompt] };
    const episode = await environment.start(shown, { random: Random.fromSeed(0), signal });
    const [system] = episode.prompt;
    expect(system!.content).toEqual([{ type: 'text', text: 'Look.' }, image, { type: 'text', text: expect.stringContaining('"name":"add"') }]);
  });

  const circular: Record<string, unknown> = {};
  circular['self'] = circular;
  it.each<[string, () => unknown, RegExp]>([
    ['a symbol', () => Symbol('odd'), /The tool "odd" of the environment odd returned a symbol, which has no JSON\. Return a string, or plain data$/],
    ['a function', () => async () => () => 'later', /returned a function, which has no JSON/],
    ['a bigint', () => 10n, /returned a bigint, which cannot be written as JSON \(.*BigInt\)/],
    ['itself', () => circular, /returned an object, which cannot be written as JSON \(.*circular/],
  ])('fails on a tool that returns %s: the model neither reads the code nor is blamed for it', async (_, execute, problem) => {
    const tool = defineTool({ name: 'odd', description: 'Odd', parameters: { type: 'object' }, execute: () => execute() });
    const odd = new ToolEnv({ id: 'odd', eval: new Dataset('rows', [row]), rubric: new Rubric({ funcs: [] }), tools: [tool] });
    const episode = await odd.start(row, { random: Random.fromSeed(0), signal });
    await expect(episode.step(call('{"name": "odd"}'), turn)).rejects.toThrow(problem);
    await expect(episode.step(call('{"name": "odd"}'), turn)).rejects.toMatchObject({ isOfCode: true });
    expect((episode.state as unknown as ToolState).toolErrors).toBe(0);
  });

  it('refuses tools that are no tools when it is made', () => {
    const made = (tools: unknown) => () =>
      new ToolEnv({ id: 'odd', eval: new Dataset('rows', [row]), rubric: new Rubric({ funcs: [] }), tools: tools as Tool[] });
    expect(made([{ name: 5 }])).toThrow('The tools of the environment odd cannot be offered: tools[0].name must be a string, got 5');
    expect(made(undefined)).toThrow(ConfigError);
    expect(made([{ name: 'add', description: 'Adds', parameters: {} }])).toThrow('tools[0].execute must be a function, got nothing');
  });

  it('ends when no tool is called, and at the last turn', async () => {
    expect(await (await start()).step('The sum is 3.', turn)).toEqual({ observation: null, stop: 'no_tools_called' });
    const episode = await start();
    const calling = call('{"name": "add", "arguments": {"a": 1, "b": 2}}');
    await episode.step(calling, turn);
    await episode.step(calling, turn);
    expect((await episode.step(calling, turn)).stop).toBe('max_turns_reached');
  });

  it('counts the calls of a tool named like a property of every object', async () => {
    const tool = defineTool({ name: 'constructor', description: 'Builds', parameters: { type: 'object' }, execute: () => 'built' });
    const builder = new ToolEnv({ id: 'builder', eval: new Dataset('rows', [row]), rubric: new Rubric({ funcs: [] }), tools: [tool] });
    const episode = await builder.start(row, { random: Random.fromSeed(0), signal });
    await episode.step(call('{"name": "constructor"}'), turn);
    expect((episode.state as unknown as ToolState).calls['constructor']).toBe(1);
  });

  it('reports calls as metrics', () => {
    expect(environment.rubric.names).toEqual(['total_tool_calls', 'bad_tool_calls', 'tool_errors', 'add_calls']);
  });

  it('takes native calls in the form of a test and in that of a policy, and says what a call is otherwise', async () => {
    const native = new ToolEnv({ id: 'native', eval: new Dataset('sums', [row]), rubric: new Rubric({ funcs: [] }), tools: [add], calls: 'native' });
    const episode = await native.start(row, { random: Random.fromSeed(0), signal });
    const given = [
      { id: 'a', name: 'add', args: { a: 1, b: 2 } },
      { id: 'b', name: 'add', arguments: '{"a": 1, "b": 2}' },
    ];
    const { observation } = await episode.step('', { ...turn, toolCalls: given as never });
    expect(observation).toMatchObject({ messages: [{ content: '{"sum":3}' }, { content: '{"sum":3}' }] });
    const odd = episode.step('', { ...turn, toolCalls: [{ id: 'c', name: 'add' }] as never });
    await expect(odd).rejects.toThrow('A tool call is { id, name, args } or { id, name, arguments } with arguments as a string');
  });
});
