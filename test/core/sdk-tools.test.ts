/** Tools of the AI SDK in a ToolEnv: the real `tool()`, schemas of the real Zod. */
import { asSchema, dynamicTool, jsonSchema, tool, zodSchema } from 'ai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import type { StepContext } from '../../src/core/environment.ts';
import { ConfigError, EnvironmentError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { Rubric } from '../../src/core/rubric.ts';
import type { SdkTools } from '../../src/core/sdk-tools.ts';
import { ToolEnv, type ToolState } from '../../src/core/tool-use.ts';

const { signal } = new AbortController();
const row: Row = {
  exampleId: 0,
  prompt: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'What is 1 + 2?' },
  ],
};
const environmentWith = (tools: SdkTools, calls: 'native' | 'text' = 'native') =>
  new ToolEnv({ id: 'sums', eval: new Dataset('sums', [row]), rubric: new Rubric({ funcs: [] }), tools, calls });

/** What the model reads after each of the turns, and the counts. */
async function played(tools: SdkTools, ...turns: readonly Readonly<Record<string, unknown>>[]) {
  await using episode = await environmentWith(tools).start(row, { random: Random.fromSeed(0), signal });
  const read: unknown[] = [];
  for (const [i, args] of turns.entries()) {
    const call = { id: `id${i}`, name: Object.keys(tools)[0]!, args, text: JSON.stringify(args) };
    const context: StepContext = { finish: 'stop', stopReason: null, toolCalls: [call], signal };
    const { observation } = await episode.step('Let me see.', context);
    read.push(observation !== null && 'messages' in observation ? observation.messages[0]!.content : null);
  }
  const { badCalls, toolErrors, calls } = episode.state as ToolState;
  return { read, counts: { bad: badCalls, errors: toolErrors, calls: Object.values(calls)[0] ?? 0 } };
}

const add = tool({
  description: 'Adds two numbers.',
  inputSchema: z.object({ a: z.number(), b: z.number().default(40), how: z.object({ slow: z.boolean() }).optional() }),
  execute: async ({ a, b }) => ({ sum: a + b }),
});

const one = (): number => 1;

describe('tools of the AI SDK in a ToolEnv', () => {
  it('are offered by the name of their key, with the JSON Schema that the SDK sends', async () => {
    const schemas = {
      add: add.inputSchema,
      own: jsonSchema({ type: 'object', properties: { q: { type: 'string' } }, required: ['q'] }),
      wrapped: zodSchema(z.object({ q: z.string() })),
      lists: z.object({
        items: z.array(z.object({ n: z.int() })),
        either: z.union([z.object({ a: z.string() }), z.null()]),
        more: z.record(z.string(), z.number()),
      }),
    };
    const tools = Object.fromEntries(
      Object.entries(schemas).map(([name, inputSchema]) => [name, { description: name, inputSchema, execute: () => 1 }]),
    );
    const offered = environmentWith(tools).tools;
    expect(offered.map(({ name }) => name)).toEqual(Object.keys(schemas));
    for (const { name, parameters } of offered)
      expect(parameters).toEqual(JSON.parse(JSON.stringify(await asSchema(schemas[name as keyof typeof schemas] as never).jsonSchema)));
    expect(environmentWith({ none: { execute: () => 1 } }).tools[0]!.parameters).toEqual({
      type: 'object',
      properties: {},
      additionalProperties: false,
    });
  });

  it('get the input as their schema reads it: defaults filled in, transformed, further keys dropped', async () => {
    const seen: unknown[] = [];
    const shout = tool({
      inputSchema: z.object({ text: z.string().transform((text) => text.length), n: z.coerce.number().default(2) }),
      execute: (input) => void seen.push(input),
    });
    expect(await played({ shout }, { text: 'four', odd: true }, { text: 'a', n: '7' })).toMatchObject({
      read: ['null', 'null'],
      counts: { bad: 0, calls: 2 },
    });
    expect(seen).toEqual([
      { text: 4, n: 2 },
      { text: 1, n: 7 },
    ]);
    expect(await played({ add }, { a: 2 })).toMatchObject({ read: ['{"sum":42}'] });
  });

  it('answer a call that does not fit with the problem and its place, and count it as a bad call', async () => {
    const { read, counts } = await played({ add }, { a: 1, how: { slow: 'no' } }, {});
    expect(read).toEqual([
      'Error: the arguments of "add" are wrong: how.slow: Invalid input: expected boolean, received string',
      'Error: the arguments of "add" are wrong: a: Invalid input: expected number, received undefined',
    ]);
    expect(counts).toEqual({ bad: 2, errors: 0, calls: 0 });
    const checked = jsonSchema<{ n: number }>({ type: 'object' }, { validate: () => ({ success: false, error: new Error('no number') }) });
    expect((await played({ checked: tool({ inputSchema: checked, execute: () => 1 }) }, {})).read).toEqual([
      'Error: the arguments of "checked" are wrong: no number',
    ]);
    const bare = jsonSchema({ type: 'object', properties: { n: { type: 'number' } } });
    expect((await played({ bare: tool({ inputSchema: bare, execute: () => 1 }) }, { n: 'x' })).read).toEqual([
      'Error: the arguments of "bare" are wrong: /n must be number',
    ]);
  });

  it('get the id of the call, the signal, and the conversation before the turn without the system prompt', async () => {
    const seen: { toolCallId: string; messages: unknown; abortSignal: unknown }[] = [];
    const note = dynamicTool({
      inputSchema: z.object({ q: z.string() }),
      execute: async (_, { toolCallId, messages, abortSignal }) => void seen.push({ toolCallId, messages, abortSignal }),
    });
    await played({ note }, { q: 'first' }, { q: 'second' });
    const question = { role: 'user', content: 'What is 1 + 2?' };
    expect(seen).toEqual([
      { toolCallId: 'id0', messages: [question], abortSignal: signal },
      {
        toolCallId: 'id1',
        messages: [
          question,
          {
            role: 'assistant',
            content: [
              { type: 'text', text: 'Let me see.' },
              { type: 'tool-call', toolCallId: 'id0', toolName: 'note', input: { q: 'first' } },
            ],
          },
          { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'id0', toolName: 'note', output: { type: 'text', value: 'null' } }] },
        ],
        abortSignal: signal,
      },
    ]);
  });

  it('show the last of the pieces of their result, and what toModelOutput makes of it', async () => {
    async function* pieces() {
      yield 'a';
      yield 'ab';
    }
    expect((await played({ slow: tool({ inputSchema: z.object({}), execute: () => pieces() }) }, {})).read).toEqual(['ab']);
    const shown = (output: unknown) => tool({ inputSchema: z.object({}), execute: () => 7, toModelOutput: () => output as never });
    const texts = [
      { type: 'text', value: 'seven' },
      { type: 'json', value: { n: 7 } },
      { type: 'error-text', value: 'no' },
      { type: 'execution-denied', reason: 'not now' },
      { type: 'content', value: [{ type: 'text', text: 'seven' }] },
    ];
    const read = await Promise.all(texts.map(async (output) => (await played({ t: shown(output) }, {})).read[0]));
    expect(read).toEqual(['seven', '{"n":7}', 'no', 'not now', '[{"type":"text","text":"seven"}]']);
  });

  it('that show a picture fail the rollout by their name: the policy reads text only', async () => {
    const picture = tool({
      inputSchema: z.object({}),
      execute: () => 1,
      toModelOutput: () => ({ type: 'content', value: [{ type: 'file', data: { type: 'data', data: '' }, mediaType: 'image/png' }] }),
    });
    const played1 = played({ picture }, {});
    await expect(played1).rejects.toThrow(EnvironmentError);
    await expect(played1).rejects.toThrow(/^toModelOutput of the tool picture returned a part of the type "file"/);
  });

  it('that throw are read by the model, and counted', async () => {
    const failing = tool({ inputSchema: z.object({}), execute: async (): Promise<string> => Promise.reject(new Error('the shelf is empty')) });
    expect(await played({ failing }, {})).toMatchObject({ read: ['Error: the shelf is empty'], counts: { errors: 1, calls: 1 } });
  });

  const lazy = { inputSchema: () => zodSchema(z.object({ q: z.string() })), execute: one };
  it('may make their schema when it is needed', () => {
    expect(environmentWith({ lazy }).tools[0]!.parameters).toMatchObject({ required: ['q'] });
  });

  const some = { inputSchema: z.object({}) };
  it.each([
    ['without execute', { ...some }, /^The tool t of the AI SDK cannot run here: it has no execute/],
    [
      'that a provider defines',
      { ...some, type: 'provider', id: 'openai.web_search', execute: one },
      /it is openai\.web_search, which a provider defines/,
    ],
    ['that needs approval', { ...some, execute: one, needsApproval: true }, /it needs approval/],
    ['with a context', { ...some, execute: one, contextSchema: z.object({}) }, /it wants a context/],
    ['whose description is a function', { ...some, execute: one, description: () => 'x' }, /its description is a function/],
    [
      'whose schema has no JSON Schema',
      { inputSchema: z.object({ at: z.date() }), execute: one },
      /its inputSchema has no JSON Schema \(Date cannot be represented/,
    ],
    [
      'whose schema does not say it',
      { inputSchema: { '~standard': { vendor: 'other', validate: () => ({}) } }, execute: one },
      /its inputSchema of other does not say its JSON Schema/,
    ],
    ['whose schema is a promise', { inputSchema: jsonSchema(Promise.resolve({})), execute: one }, /its JSON Schema is a promise/],
    ['that is none', 5, /it is 5\. Give what tool\(\) returns/],
  ])('refuses a tool %s, by its name', (_, given, text) => {
    expect(() => environmentWith({ t: given as never })).toThrow(text);
    expect(() => environmentWith({ t: given as never })).toThrow(ConfigError);
  });

  it('refuses a name that no model could call', () => {
    expect(() => environmentWith({ 'two words': add })).toThrow(/The tool name "two words" must consist of/);
  });
});
