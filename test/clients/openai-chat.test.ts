import { describe, expect, test, vi } from 'vitest';
import { OpenAIChatClient, type OpenAIChatOptions } from '../../src/clients/openai-chat.ts';
import type { ChatLease, GenerateRequest, TextSample } from '../../src/clients/policy-client.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { ConfigError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { paintedStore } from '../images/painted-store.ts';
import { type Loopback, loopback, readText, sendJson } from '../transport/loopback.ts';

const forever = new AbortController().signal;
const question: readonly Message[] = [{ role: 'user', content: 'Who?' }];

const completion = (content: unknown, choice: object = {}, more: object = {}) => ({
  choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content }, ...choice }],
  usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
  ...more,
});

function connect(urls: readonly string[], more: Partial<OpenAIChatOptions> = {}): OpenAIChatClient & AsyncDisposable {
  const versions = new PolicyVersions({ version: 0, model: 'm' });
  const client = new OpenAIChatClient({ baseUrls: urls.map((url) => `${url}/v1`), versions, baseDelayMs: 1, ...more });
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}

async function ask(lease: ChatLease, more: Partial<GenerateRequest<readonly Message[]>> = {}): Promise<TextSample> {
  return lease.generate({ prompt: question, sampling: { temperature: 1, topP: 1 }, maxNewTokens: 50, stop: [], signal: forever, ...more });
}

/** What the client makes of one answer. */
async function reading(answer: object, stop: readonly string[] = []): Promise<TextSample> {
  await using server = await loopback((_, response) => sendJson(response, 200, answer));
  await using client = connect([server.url], { maxRetries: 0 });
  await using lease = await client.lease(forever);
  const sample = await ask(lease, { stop });
  return sample;
}

/** The JSON and headers that arrive. */
async function sent(more: Partial<GenerateRequest<readonly Message[]>> = {}, options: Partial<OpenAIChatOptions> = {}) {
  let seen: { url: string | undefined; headers: Record<string, unknown>; body: unknown } | undefined;
  await using server = await loopback(async (request, response) => {
    seen = { url: request.url, headers: request.headers, body: JSON.parse(await readText(request)) };
    sendJson(response, 200, completion('ok'));
  });
  await using client = connect([server.url], options);
  await using lease = await client.lease(forever);
  await ask(lease, more);
  return seen!;
}

const painted = await paintedStore(3, 64, 48);

/** A stand-in for a server with a model: words until a stop string or the limit. */
const wordServer = () =>
  loopback(async (request, response) => {
    const { max_tokens: limit, stop = [] } = JSON.parse(await readText(request)) as { max_tokens: number; stop?: string[] };
    const words = ['<think>', 'so', '</think>', '<search>', 'q', '</search>', 'more'];
    const kept = words.slice(0, limit);
    const end = kept.findIndex((word) => stop.includes(word));
    const text = kept.slice(0, end < 0 ? undefined : end).join('');
    const finish = end < 0 && limit < words.length ? 'length' : 'stop';
    const answer = completion(text, { finish_reason: finish }, { usage: { prompt_tokens: 1, completion_tokens: kept.length } });
    setTimeout(() => sendJson(response, 200, answer), 3);
  });

policyClientContract(
  'OpenAIChatClient',
  async () => {
    const server = await wordServer();
    const versions = new PolicyVersions({ version: 0, model: 'm' });
    const client = new OpenAIChatClient({ baseUrls: [`${server.url}/v1`], versions, images: painted.store });
    const dispose = async () => {
      await client.close();
      await server[Symbol.asyncDispose]();
    };
    return { client, versions, [Symbol.asyncDispose]: dispose };
  },
  {
    messages: question,
    stop: '</search>',
    control: null,
    isSlow: true,
    kind: 'chat',
    isWindowed: false,
    pictures: { ...painted, rules: null, tokens: 0 },
  },
);

describe('OpenAIChatClient', () => {
  test('sends back a call that could not be parsed in a form that APIs accept: a name, and arguments that are JSON', async () => {
    const toolCalls = [
      { id: 'a', name: 'add', arguments: '{"a":1}' },
      { id: 'b', name: '', arguments: '{"name": "add"' },
      { id: 'c', name: 'add', arguments: '{"a":' },
    ];
    const { body } = await sent({ prompt: [...question, { role: 'assistant', content: '', toolCalls }] });
    const [, { tool_calls: calls }] = (body as { messages: [unknown, { tool_calls: { function: { name: string; arguments: string } }[] }] }).messages;
    expect(calls.map((call) => call.function)).toEqual([
      { name: 'add', arguments: '{"a":1}' },
      { name: 'malformed_call', arguments: '{"text":"{\\"name\\": \\"add\\""}' },
      { name: 'add', arguments: '{"text":"{\\"a\\":"}' },
    ]);
  });

  test('sends the images of a user message as data URLs, and refuses those of other messages, which no API takes', async () => {
    const image = { sha256: 'a', mediaType: 'image/png', width: 1, height: 1 };
    const images = { put: async () => image, get: async () => Uint8Array.of(1, 2, 3) };
    const content = [{ type: 'text', text: 'Look.' } as const, { type: 'image', image } as const];
    const { body } = await sent({ prompt: [{ role: 'user', content }] }, { images });
    expect(body).toMatchObject({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look.' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AQID' } },
          ],
        },
      ],
    });
    for (const message of [
      { role: 'tool', content, toolCallId: 'a' },
      { role: 'system', content },
      { role: 'assistant', content, toolCalls: [{ id: 'a', name: 'look', arguments: '{}' }] },
    ] as const) {
      const sending = sent({ prompt: [...question, message] }, { images });
      await expect(sending).rejects.toThrow(ConfigError);
      await expect(sending).rejects.toThrow(`A ${message.role} message contains an image`);
    }
  });

  test('sends the sampling explicitly, to the path under the base URL', async () => {
    const { url, body } = await sent({ stop: ['</search>'] });
    expect(url).toBe('/v1/chat/completions');
    expect(body).toEqual({
      model: 'm',
      messages: [{ role: 'user', content: 'Who?' }],
      temperature: 1,
      top_p: 1,
      max_tokens: 50,
      stop: ['</search>'],
    });
  });

  test('leaves out stops and limits that were not asked for', async () => {
    const { body } = await sent({ maxNewTokens: null });
    expect(body).not.toHaveProperty('stop');
    expect(body).not.toHaveProperty('max_tokens');
  });

  test('leaves out what the sampling sets to null', async () => {
    const { body } = await sent({ sampling: { temperature: null, topP: null, leaveOut: ['stop', 'max_tokens'] }, stop: ['</search>'] });
    expect(body).toEqual({ model: 'm', messages: [{ role: 'user', content: 'Who?' }] });
  });

  test('passes further sampling fields on; max_completion_tokens takes the place of max_tokens', async () => {
    const { body } = await sent({ sampling: { temperature: 0, topP: 0.9, extra: { top_k: 5, max_completion_tokens: 9 } } });
    expect(body).toMatchObject({ temperature: 0, top_p: 0.9, top_k: 5, max_completion_tokens: 9 });
    expect(body).not.toHaveProperty('max_tokens');
  });

  test.each(['stream', 'n', 'messages', 'model'])('refuses the sampling field %s', async (field) => {
    await expect(sent({ sampling: { temperature: 1, topP: 1, extra: { [field]: 2 } } })).rejects.toThrow(ConfigError);
  });

  test('sends the key and the headers, and nothing that it finds in the environment', async () => {
    const { headers } = await sent({}, { apiKey: 'sk-secret', headers: { 'X-Team': 'a' } });
    expect(headers).toMatchObject({ authorization: 'Bearer sk-secret', 'x-team': 'a', 'user-agent': 'vf-search' });
    vi.stubEnv('OPENAI_API_KEY', 'sk-environment')
      .stubEnv('OPENAI_ORG_ID', 'org-environment')
      .stubEnv('OPENAI_CUSTOM_HEADERS', 'X-Other: environment');
    const bare = JSON.stringify((await sent()).headers);
    vi.unstubAllEnvs();
    expect(bare).not.toMatch(/environment|authorization/);
  });

  test('writes tool calls and their results as the API has them', async () => {
    const prompt: readonly Message[] = [
      { role: 'assistant', content: '', toolCalls: [{ id: '1', name: 'f', arguments: '{' }] },
      { role: 'tool', content: 'r', toolCallId: '1' },
    ];
    expect((await sent({ prompt })).body).toMatchObject({
      messages: [
        { role: 'assistant', content: null, tool_calls: [{ id: '1', type: 'function', function: { name: 'f', arguments: '{"text":"{"}' } }] },
        { role: 'tool', content: 'r', tool_call_id: '1' },
      ],
    });
  });

  test('reads text, finish and usage', async () => {
    const usage = { prompt_tokens: 7, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 4 } };
    expect(await reading(completion('Él 🙂', { finish_reason: 'length' }, { usage }))).toEqual({
      text: 'Él 🙂',
      finish: 'length',
      stopReason: null,
      usage: { promptTokens: 7, completionTokens: 3, cachedTokens: 4 },
    });
    expect((await reading(completion('x', {}, { usage: undefined }))).usage).toEqual({ promptTokens: 0, completionTokens: 0, cachedTokens: null });
  });

  test.each([
    { prompt_tokens: -7, completion_tokens: 3 },
    { prompt_tokens: 7.5, completion_tokens: 3 },
    { prompt_tokens: 7, completion_tokens: '3' },
    { prompt_tokens: 7 },
  ])('takes the usage %j as unknown', async (usage) => {
    expect((await reading(completion('x', {}, { usage }))).usage).toEqual({ promptTokens: 0, completionTokens: 0, cachedTokens: null });
  });

  test('takes cached tokens that are not a whole number as unknown', async () => {
    const usage = { prompt_tokens: 7, completion_tokens: 3, prompt_tokens_details: { cached_tokens: -4 } };
    expect((await reading(completion('x', {}, { usage }))).usage).toEqual({ promptTokens: 7, completionTokens: 3, cachedTokens: null });
  });

  test('reads only the content: thoughts of a reasoning model do not count', async () => {
    const message = { role: 'assistant', content: 'B', reasoning_content: 'A' };
    expect((await reading(completion('', { message }))).text).toBe('B');
    expect(await reading(completion(null, { finish_reason: 'length' }))).toMatchObject({ text: '', finish: 'length' });
    expect((await reading(completion(''))).text).toBe('');
  });

  test('makes half surrogates valid in texts, thoughts and calls', async () => {
    const message = { role: 'assistant', content: 'a\ud800b', reasoning_content: 'c\udc00' };
    expect(await reading(completion('', { message }))).toMatchObject({ text: 'a\ufffdb', reasoning: 'c\ufffd' });
    expect((await reading(completion(['a\ud800', { type: 'text', text: 'b' }]))).text).toBe('a\ufffdb');
    const call = { id: '1', type: 'function', function: { name: 'search', arguments: '{"query": "\ud800"}' } };
    const { toolCalls } = await reading(completion(null, { message: { role: 'assistant', content: null, tool_calls: [call] } }));
    expect(toolCalls).toMatchObject([{ arguments: '{"query": "\ufffd"}' }]);
  });

  const stops = ['</search>', '</answer>'];
  test('fails where a stop string ended the thoughts and there is no text', async () => {
    const message = { role: 'assistant', content: '', reasoning_content: 'hm <search> cap' };
    await expect(reading(completion('', { message }), stops)).rejects.toThrow("stopped inside the model's thoughts, at the stop string");
    expect((await reading(completion('', { message }), [])).text).toBe('');
  });

  test('cuts where a server continues after a stop string', async () => {
    const sample = await reading(completion('<search> q </search> and more', { finish_reason: 'length' }), stops);
    expect(sample).toMatchObject({ text: '<search> q </search>', finish: 'stop', stopReason: '</search>', stopWasIgnored: true });
  });

  test.each([
    ['that vLLM names', '<search> q ', { stop_reason: '</search>' }, '<search> q </search>', '</search>', undefined],
    ['that vLLM names and kept', '<search> q </search>', { stop_reason: '</search>' }, '<search> q </search>', '</search>', undefined],
    ['that was kept', '<search> q </search>', {}, '<search> q </search>', '</search>', undefined],
    ['whose tag stands open', '<think> <search> </think><search> q ', {}, '<think> <search> </think><search> q </search>', '</search>', true],
    ['whose tag was opened last', '<search> a <answer> b', {}, '<search> a <answer> b</answer>', '</answer>', true],
  ])('puts back a stop string %s', async (_, content, choice, text, stopReason, guessed) => {
    expect(await reading(completion(content, choice), stops)).toMatchObject({ text, stopReason });
    expect((await reading(completion(content, choice), stops)).stopIsGuess).toBe(guessed);
  });
  test.each([
    ['guesses', '<search> q ', {}],
    ['cannot know', 'no tags, and no answer <search', {}, ['Observation:']],
  ])('with strict stops ends the run where it %s', async (_, content, choice, stop = stops) => {
    await using server = await loopback((_request, response) => sendJson(response, 200, completion(content, choice)));
    await using client = connect([server.url], { strictStops: true });
    await using lease = await client.lease(forever);
    await expect(ask(lease, { stop })).rejects.toMatchObject({ endsRun: true, message: expect.stringContaining('null for stop') });
    expect(server.requests).toHaveLength(1);
  });
  test.each([
    ['a server that names its stop string', '<search> q ', { stop_reason: '</search>' }],
    ['a text that was cut here', '<search> q </search> and more', {}],
  ])('strict stops accept %s', async (_, content, choice) => {
    await using server = await loopback((_request, response) => sendJson(response, 200, completion(content, choice)));
    await using client = connect([server.url], { strictStops: true });
    await using lease = await client.lease(forever);
    expect(await ask(lease, { stop: stops })).toMatchObject({ text: '<search> q </search>' });
  });

  test.each([
    ['without an open tag', 'no tags', {}],
    ['after an answer', '<think> <search> or not </think><answer> Rome </answer>', {}, ['</search>']],
    ['where vLLM says that none ended it', '<search> q', { stop_reason: null }],
    ['when the length ended it', '<search> q', { finish_reason: 'length' }],
    ['when a token id ended it', '<search> q', { stop_reason: 151645 }],
  ])('puts nothing back %s', async (_, content, choice, ends = stops) => {
    const sample = await reading(completion(content, choice), ends);
    expect(sample.text).toBe(content);
    expect(sample).not.toHaveProperty('stopIsGuess');
  });

  const REJECTED = { error: { message: "Unsupported parameter: 'stop' is not supported with this model.", param: 'stop' } };
  test.each([
    ['that the user left out', { temperature: null, topP: null, leaveOut: ['stop'] }],
    ['that the server rejects', undefined],
  ])('guesses nothing about stop strings %s: what is open was left open by the model', async (_, sampling) => {
    const texts = ['<search> q', '<search> q </search> and more'];
    await using server = await loopback(async (request, response) => {
      if ('stop' in (JSON.parse(await readText(request)) as object)) return sendJson(response, 400, REJECTED);
      sendJson(response, 200, completion(texts.shift()));
    });
    await using client = connect([server.url], { strictStops: true });
    await using lease = await client.lease(forever);
    const request = { stop: stops, ...(sampling && { sampling }) };
    const open = await ask(lease, request);
    expect(open).toMatchObject({ text: '<search> q', stopReason: null });
    const whole = await ask(lease, request);
    expect(whole).toMatchObject({ text: '<search> q </search>', stopReason: '</search>' });
    for (const sample of [open, whole]) expect(sample).not.toHaveProperty('stopIsGuess');
  });

  test('keeps a trajectory on one replica and spreads trajectories', async () => {
    const answer = (_: unknown, response: Parameters<typeof sendJson>[0]) => sendJson(response, 200, completion('ok'));
    await using one = await loopback(answer);
    await using two = await loopback(answer);
    await using client = connect([one.url, two.url]);
    await using first = await client.lease(forever);
    await using second = await client.lease(forever);
    for (let i = 0; i < 3; i++) await ask(first);
    await ask(second);
    expect([one.requests.length, two.requests.length]).toEqual([3, 1]);
  });

  test('never has more requests under way than allowed', async () => {
    let open = 0;
    let most = 0;
    await using server: Loopback = await loopback((_, response) => {
      most = Math.max(most, ++open);
      setTimeout(() => (open--, sendJson(response, 200, completion('ok'))), 2);
    });
    await using client = connect([server.url], { maxConcurrentRequests: 2 });
    await using lease = await client.lease(forever);
    await Promise.all(Array.from({ length: 10 }, () => ask(lease)));
    expect([server.requests.length, most]).toEqual([10, 2]);
  });
});
