/**
 * What the three dialects of the gateway ask of a real vLLM: each key does what it says, or is refused by its name.
 * @module-tag long
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { probePolicy } from '../../src/clients/vllm-probe.ts';
import { VllmTokensClient } from '../../src/clients/vllm-tokens.ts';
import { type SessionServer, startSessionServer } from '../../src/server/gateway/start-session-server.ts';
import { servedSampling } from '../../src/serving/open-served-policy.ts';
import { serveModel, serveUnlessGiven } from './serve.ts';

type Json = Readonly<Record<string, unknown>>;

const { signal } = new AbortController();
const QUESTION = 'What is the colour of the heron?';
const messages = [{ role: 'user', content: QUESTION }];
const parameters = { type: 'object', properties: { query: { type: 'string' } }, required: ['query'] };
const schema = { type: 'object', properties: { colour: { enum: ['red', 'blue'] } }, required: ['colour'], additionalProperties: false };
const COLOURS = /^\{\s*"colour"\s*:\s*"(red|blue)"\s*\}\s*$/;

const DIALECTS = {
  chat: { path: 'chat/completions', body: { messages }, limit: 'max_tokens', tools: [{ type: 'function', function: { name: 'find', parameters } }] },
  responses: { path: 'responses', body: { input: QUESTION }, limit: 'max_output_tokens', tools: [{ type: 'function', name: 'find', parameters }] },
  messages: { path: 'messages', body: { messages }, limit: 'max_tokens', tools: [{ name: 'find', input_schema: parameters }] },
} as const;
type Dialect = keyof typeof DIALECTS;
const { chat, responses, messages: anthropic } = DIALECTS;

let open: AsyncDisposableStack;
let server: SessionServer;
beforeAll(async () => {
  open = new AsyncDisposableStack();
  const { url } = open.use(
    await serveUnlessGiven('VLLM_COPY_BASE_URL', () => serveModel('packages/vf-search-models/models/nano-copy', { VF_VLLM_LORA: '1' })),
  );
  const { kind: _, model, chatOnlyBecause: __, hasChatTemplate, ...capabilities } = await probePolicy({ baseUrl: url, model: 'nano-copy', signal });
  const client = new VllmTokensClient({ baseUrls: [url], versions: new PolicyVersions({ version: 0, model }), capabilities, hasChatTemplate });
  open.defer(() => client.close());
  server = await startSessionServer({
    client,
    readSampling: (fields) => servedSampling({ temperature: 1, max_tokens: 60, ...fields }),
    maxSessions: 1000,
    timeoutMs: 600_000,
    seed: 0,
    host: '127.0.0.1',
    port: 0,
    apiKey: null,
    version: '0',
    redact: (text) => text,
    onFailure: (error) => {
      throw error;
    },
  });
  open.defer(() => server.close());
}, 1_800_000);
afterAll(() => open[Symbol.asyncDispose]());

const post = (url: string, body: object) =>
  fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

/** Asks in a session of its own, in which the agent's settings hold unless it is said otherwise. */
async function ask(dialect: Dialect, keys: Json, isTrained = false): Promise<{ readonly status: number; readonly answer: Json }> {
  const session = (await (await post(`${server.url}/sessions`, { override_sampling: isTrained })).json()) as { readonly base_url: string };
  const { path, body } = DIALECTS[dialect];
  const response = await post(`${session.base_url}/${path}`, { model: 'any', ...body, ...keys });
  return { status: response.status, answer: (await response.json()) as Json };
}

/** The fields of choices, messages, items and blocks that are read here. */
interface Part {
  readonly type?: string;
  readonly text?: string;
  readonly name: string;
  readonly content?: unknown;
  readonly message: { readonly content?: string | null; readonly tool_calls?: unknown };
  readonly function: { readonly name: string };
  readonly finish_reason?: string;
  readonly logprobs?: { readonly content?: unknown };
}

interface Heard {
  readonly text: string;
  readonly calls: readonly string[];
  /** Why the turn ended, in the words of the API. */
  readonly end: unknown;
  readonly logProbs: readonly LogProb[];
}

interface LogProb {
  readonly token: string;
  readonly logprob: number;
  readonly top_logprobs: readonly Pick<LogProb, 'logprob'>[];
}

function tokensOf(value: unknown): readonly LogProb[] {
  return Array.isArray(value) ? (value as readonly LogProb[]) : [];
}

/** The answers of a request, from the forms of all dialects. */
async function heard(dialect: Dialect, keys: Json): Promise<readonly Heard[]> {
  const { status, answer } = await ask(dialect, keys);
  if (status !== 200) throw new Error(`Expected an answer, got ${status} ${JSON.stringify(answer)}`);
  const list = (value: unknown) => (Array.isArray(value) ? (value as readonly Part[]) : []);
  if (dialect === 'chat')
    return list(answer['choices']).map(({ message, finish_reason: end, logprobs }) => ({
      text: message.content ?? '',
      calls: list(message.tool_calls).map((call) => call.function.name),
      end,
      logProbs: tokensOf(logprobs?.content),
    }));
  const blocks = list(dialect === 'responses' ? answer['output'] : answer['content']);
  const parts = blocks.flatMap((block) => (block.type === 'message' ? list(block.content) : [block]));
  return [
    {
      text: parts.map(({ text = '' }) => text).join(''),
      calls: blocks.flatMap(({ type, name }) => (type === 'tool_use' || type === 'function_call' ? [name] : [])),
      end: answer['stop_reason'] ?? answer['status'],
      logProbs: parts.flatMap(({ logprobs }) => tokensOf(logprobs)),
    },
  ];
}

const json = { type: 'json_schema', name: 'answer', schema };
const SCHEMAS: readonly (readonly [Dialect, string, Json])[] = [
  ['chat', 'response_format', { response_format: { type: 'json_schema', json_schema: json } }],
  ['responses', 'text.format', { text: { format: json } }],
  ['messages', 'output_config.format', { output_config: { format: json } }],
];

describe('a real vLLM behind the gateway', () => {
  it.each(SCHEMAS)('guides the answer in %s by %s, and is asked for it neither with tools nor in training', async (dialect, key, keys) => {
    const guided = { ...keys, [DIALECTS[dialect].limit]: 60, temperature: 0 };
    expect((await heard(dialect, guided))[0]!.text).toMatch(COLOURS);
    const refused = [await ask(dialect, { ...guided, tools: DIALECTS[dialect].tools }), await ask(dialect, guided, true)];
    for (const { status, answer } of refused) expect([status, (answer['error'] as Json)['message']]).toEqual([400, expect.stringContaining(key)]);
  });

  it.each(Object.keys(DIALECTS) as Dialect[])(
    'calls a tool in %s where one must be called, the one that is named, and none where none may be',
    async (dialect) => {
      const { tools } = DIALECTS[dialect];
      const [must, named] = {
        chat: ['required', { type: 'function', function: { name: 'find' } }],
        responses: ['required', { type: 'function', name: 'find' }],
        messages: [{ type: 'any' }, { type: 'tool', name: 'find' }],
      }[dialect];
      expect((await heard(dialect, { tools, tool_choice: named }))[0]!.calls).toEqual(['find']);
      expect((await heard(dialect, { tools, tool_choice: must, temperature: 0 }))[0]!.calls).toHaveLength(1);
      const none = dialect === 'messages' ? { type: 'none' } : 'none';
      expect((await heard(dialect, { tools, tool_choice: none }))[0]!.calls).toEqual([]);
    },
  );

  it('ends a turn behind its first call where one call is all that is wanted', async () => {
    const single: readonly (readonly [Dialect, Json])[] = [
      ['chat', { tools: chat.tools, tool_choice: 'required', parallel_tool_calls: false }],
      ['responses', { tools: responses.tools, tool_choice: 'required', parallel_tool_calls: false }],
      ['messages', { tools: anthropic.tools, tool_choice: { type: 'any', disable_parallel_tool_use: true } }],
    ];
    for (const [dialect, keys] of single) expect((await heard(dialect, { ...keys, temperature: 0 }))[0]!.calls).toHaveLength(1);
  });

  it('stops at stop strings, which are not in the text', async () => {
    const long = { min_tokens: 30, temperature: 0 };
    const [{ text }] = (await heard('chat', long)) as [Heard];
    const stop = text.trim().slice(3, 6);
    const [cut] = (await heard('chat', { temperature: 0, stop: [stop] })) as [Heard];
    expect([text.startsWith(cut.text), cut.text.includes(stop), cut.end]).toEqual([true, false, 'stop']);
    const [also] = (await heard('messages', { temperature: 0, stop_sequences: [stop] })) as [Heard];
    expect([also.text, also.end]).toEqual([cut.text, 'stop_sequence']);
  });

  it('gives log-probs and the likeliest tokens', async () => {
    const [one] = (await heard('chat', { logprobs: true, top_logprobs: 3, temperature: 0 })) as [Heard];
    const [other] = (await heard('responses', { include: ['message.output_text.logprobs'], top_logprobs: 3, temperature: 0 })) as [Heard];
    expect(one.logProbs.map(({ token }) => token).join('')).toContain(one.text);
    for (const { logprob, top_logprobs: top } of one.logProbs) {
      expect(top).toHaveLength(3);
      // Sampled without temperature, so that it is the likeliest.
      expect(top[0]!.logprob).toBe(logprob);
      expect(top.map((each) => each.logprob)).toEqual(top.map((each) => each.logprob).toSorted((a, b) => b - a));
    }
    expect(other.logProbs.map(({ token }) => token)).toEqual(one.logProbs.map(({ token }) => token));
  });

  it('samples the same again under a seed, other answers under another and for each of n', async () => {
    const texts = async (keys: Json) => (await heard('chat', { temperature: 2, ...keys })).map(({ text }) => text);
    const first = await texts({ seed: 7, n: 3 });
    expect(new Set(first).size).toBe(3);
    expect(await texts({ seed: 7, n: 3 })).toEqual(first);
    expect((await texts({ seed: 8 }))[0]).not.toBe(first[0]);
  });

  it('limits tokens, and narrows what is sampled', async () => {
    for (const dialect of Object.keys(DIALECTS) as Dialect[])
      expect(['length', 'incomplete', 'max_tokens']).toContain((await heard(dialect, { [DIALECTS[dialect].limit]: 1 }))[0]!.end);
    const [{ text }] = (await heard('chat', { temperature: 0 })) as [Heard];
    for (const keys of [{ top_k: 1 }, { top_p: 1e-6 }, { min_p: 1 }]) expect((await heard('chat', { temperature: 2, ...keys }))[0]!.text).toBe(text);
    expect((await heard('messages', { temperature: 2, top_k: 1, max_tokens: 60 }))[0]!.text).toBe(text);
  });

  it.each([
    ['chat', 'top_p', { top_p: 0 }],
    ['chat', 'repetition_penalty', { repetition_penalty: 0 }],
    ['chat', 'min_tokens', { min_tokens: 20, max_tokens: 5 }],
    ['chat', 'Grammar', { response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'nonsense' } } } }],
    ['chat', 'stop', { stop: ['a', 'b', 'c', 'd', 'e'] }],
    ['chat', 'logit_bias', { logit_bias: { 5: 100 } }],
    ['chat', 'structured_outputs', { structured_outputs: { json: schema } }],
    ['responses', 'stop', { stop: ['a'] }],
    ['responses', 'seed', { seed: 1 }],
    ['responses', 'background', { background: true }],
    ['messages', 'seed', { seed: 1 }],
    ['messages', 'messages[1].role', { messages: [...messages, { role: 'assistant', content: 'It is' }] }],
  ] as const)('is not asked in %s for what cannot be honoured: 400 names %s', async (dialect, key, keys) => {
    const { status, answer } = await ask(dialect, keys);
    expect([status, (answer['error'] as Json)['message']]).toEqual([400, expect.stringContaining(key)]);
  });
});
