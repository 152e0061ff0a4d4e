/** Chat servers that lie, leak or hang, against the client that plays them. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { OpenAIChatClient, type OpenAIChatOptions } from '../../src/clients/openai-chat.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import type { Sampling } from '../../src/clients/policy-client.ts';
import { describeError, PolicyError, PromptTooLongError, TimeoutError, type VfError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import type { ToolSpec } from '../../src/core/tool-calls.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';

const KEY = 'sk-a-key-of-this-test';
const signal = new AbortController().signal;
type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

interface Asked {
  readonly prompt?: readonly Message[];
  readonly sampling?: Sampling;
  readonly maxNewTokens?: number | null;
  readonly path?: string;
  readonly tools?: readonly ToolSpec[];
}

const IMAGE = { sha256: 'a', mediaType: 'image/png', width: 1, height: 1 };

/** Asks `times` times; gives what came of each, and the bodies that the server read. */
async function ask(handler: Handler, options: Partial<OpenAIChatOptions> = {}, asked: Asked = {}, times = 1) {
  const bodies: Record<string, unknown>[] = [];
  await using server = await loopback(async (request, response) => {
    bodies.push(JSON.parse(await readText(request)) as Record<string, unknown>);
    await handler(request, response);
  });
  const versions = new PolicyVersions({ version: 0, model: 'm' });
  const baseUrls = [`${server.url}${asked.path ?? '/v1'}`];
  const client = new OpenAIChatClient({ baseUrls, versions, apiKey: KEY, maxRetries: 0, baseDelayMs: 1, ...options });
  const { prompt = [{ role: 'user', content: 'Who?' }], sampling = { temperature: 1, topP: 1 }, maxNewTokens = 500, tools = [] } = asked;
  const outcomes: unknown[] = [];
  for (let i = 0; i < times; i++) {
    await using lease = await client.lease(signal);
    outcomes.push(await lease.generate({ prompt, sampling, maxNewTokens, stop: [], tools, signal }).catch((error: unknown) => error));
  }
  await client.close();
  return { outcome: outcomes[0], outcomes, bodies, url: server.url };
}

const answering =
  (choice: Record<string, unknown>, more: Record<string, unknown> = {}): Handler =>
  (_, response) =>
    sendJson(response, 200, { choices: [{ finish_reason: 'stop', message: { content: 'ok' }, ...choice }], ...more });
const refusing =
  (status: number, error: unknown): Handler =>
  (_, response) =>
    sendJson(response, status, { error });

describe('a chat server that repeats the key', () => {
  const leaks: Record<string, Handler> = {
    'as the whole answer': (_, response) => response.end(`${KEY} `),
    'cut by the excerpt of the parser': (_, response) => response.end(`${'{"a": 1} '.repeat(3)}${KEY}${' x'.repeat(40)}`),
    'in an error with status 200': (_, response) => sendJson(response, 200, { error: { message: `${'x'.repeat(170)}${KEY}` } }),
    'as a refusal': answering({ message: { content: null, refusal: `${'x'.repeat(190)}${KEY}` } }),
  };
  it.each(Object.entries(leaks))('%s: no part of it reaches an error or its causes', async (_, handler) => {
    const { outcome } = await ask(handler);
    expect(outcome).toBeInstanceOf(PolicyError);
    const stacks: string[] = [];
    for (let e = outcome; e instanceof Error; e = e.cause) stacks.push(String(e.stack));
    for (const text of [describeError(outcome), ...stacks]) expect(text).not.toContain('sk-a-');
  });
});

describe('a chat server that lies about its window', () => {
  const tooLong = refusing(400, { message: "This model's maximum context length is 100 tokens.", code: 'context_length_exceeded' });

  it('is an error where the first prompt fits what it announced', async () => {
    const { outcome } = await ask(tooLong, { maxModelLen: 32_768 });
    expect(outcome).toBeInstanceOf(PolicyError);
    expect(outcome).not.toBeInstanceOf(PromptTooLongError);
    expect((outcome as VfError).message).toMatch(/reports a window of 32768/);
  });

  it.each<[string, number | null, readonly Message[]]>([
    ['it announced none', null, [{ role: 'user', content: 'Who?' }]],
    ['the prompt may not fit', 300, [{ role: 'user', content: 'Who? '.repeat(20) }]],
    [
      'the policy has written already',
      32_768,
      [
        { role: 'user', content: 'Who?' },
        { role: 'assistant', content: 'x' },
      ],
    ],
    ['an image may take thousands of tokens', 4096, [{ role: 'user', content: [{ type: 'image', image: IMAGE }] }]],
  ])('is believed where %s', async (_, maxModelLen, prompt) => {
    const images = { put: async () => IMAGE, get: async () => Uint8Array.of(1) };
    expect((await ask(tooLong, { maxModelLen, images }, { prompt })).outcome).toBeInstanceOf(PromptTooLongError);
  });

  it('is an error that names the limit where a first prompt leaves no room for as many new tokens', async () => {
    const message =
      "'max_tokens' or 'max_completion_tokens' is too large: 500. This model's maximum context length is 400 tokens and your request has 9 input tokens (500 > 400 - 9).";
    const { outcome } = await ask(refusing(400, { message }), { maxModelLen: null });
    expect(outcome).not.toBeInstanceOf(PromptTooLongError);
    expect((outcome as VfError).message).toMatch(/no room for 500 new tokens after a first prompt: .* Lower -t$/);
    const later: readonly Message[] = [
      { role: 'user', content: 'Who?' },
      { role: 'assistant', content: 'x' },
    ];
    expect((await ask(refusing(400, { message }), { maxModelLen: null }, { prompt: later })).outcome).toBeInstanceOf(PromptTooLongError);
  });

  it('is believed where the tools alone may fill the window', async () => {
    const tools = [{ name: 'search', description: 'Finds passages. '.repeat(300), parameters: { type: 'object' } }];
    expect((await ask(tooLong, { maxModelLen: 4096 }, { tools })).outcome).toBeInstanceOf(PromptTooLongError);
  });
});

describe('a chat server that ignores what it is asked', () => {
  it('fails the rollout where it counts far more tokens than the limit', async () => {
    const { outcome } = await ask(answering({}, { usage: { prompt_tokens: 9, completion_tokens: 3_000_000 } }));
    expect(outcome).toBeInstanceOf(PolicyError);
    expect((outcome as VfError).message).toMatch(/generated 3000000 tokens, but the limit was 500/);
  });

  it('may think as long as it likes: some providers limit only the text', async () => {
    const usage = { completion_tokens: 2_400, completion_tokens_details: { reasoning_tokens: 2_000 } };
    expect((await ask(answering({}, { usage }))).outcome).toMatchObject({ text: 'ok' });
  });

  it.each([{ finish_reason: null }, { finish_reason: undefined }])('is asked again where it does not say why it ended: %j', async (choice) => {
    const { outcome, bodies } = await ask(answering(choice), { maxRetries: 1 });
    expect(outcome).toMatchObject({ name: 'PolicyError', retryable: true, message: expect.stringContaining('finish_reason') });
    expect(bodies).toHaveLength(2);
  });
});

describe('a chat server that wants max_completion_tokens', () => {
  const message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";

  it('gets it at once, and from then on', async () => {
    let bodies: Record<string, unknown>[] = [];
    const handler: Handler = (request, response) =>
      'max_tokens' in bodies.at(-1)!
        ? refusing(400, { message, param: 'max_tokens', code: 'unsupported_parameter' })(request, response)
        : answering({})(request, response);
    await using server = await loopback(async (request, response) => {
      bodies.push(JSON.parse(await readText(request)) as Record<string, unknown>);
      handler(request, response);
    });
    const client = new OpenAIChatClient({ baseUrls: [server.url], versions: new PolicyVersions({ version: 0, model: 'm' }), maxRetries: 0 });
    for (let i = 0; i < 2; i++) {
      await using lease = await client.lease(signal);
      const request = { prompt: [], sampling: { temperature: 1, topP: 1 }, maxNewTokens: 500, stop: [], signal };
      expect((await lease.generate(request)).text).toBe('ok');
    }
    await client.close();
    expect(bodies.map((body) => [body['max_tokens'], body['max_completion_tokens']])).toEqual([
      [500, undefined],
      [undefined, 500],
      [undefined, 500],
    ]);
  });

  it('is not asked forever when it refuses both', async () => {
    const { outcome, bodies } = await ask(refusing(400, { message, param: 'max_tokens' }));
    expect(outcome).toBeInstanceOf(PolicyError);
    expect(bodies).toHaveLength(2);
  });
});

describe('a chat server that refuses access', () => {
  it.each([401, 403, 404])('a %i with the first request ends the run', async (status) => {
    expect((await ask(refusing(status, { message: 'no' }))).outcome).toMatchObject({ endsRun: true, status });
  });

  it.each([
    [401, true],
    [403, false],
    [404, false],
  ])('a %i after an answer ends the run: %s', async (status, endsRun) => {
    let count = 0;
    const handler: Handler = (request, response) =>
      count++ === 0 ? answering({})(request, response) : refusing(status, { message: 'flagged' })(request, response);
    const { outcomes } = await ask(handler, {}, {}, 2);
    expect(outcomes[1]).toMatchObject({ status, endsRun });
  });

  it('a base URL without /v1 is named where the path is what is missing', async () => {
    const { outcome, url } = await ask(refusing(404, { message: 'Not Found' }), {}, { path: '' });
    expect((outcome as VfError).message).toContain(`has no /v1; try ${url}/v1`);
    const missing = await ask(refusing(404, { message: 'The model m does not exist' }), {}, { path: '' });
    expect((missing.outcome as VfError).message).not.toContain('/v1, try');
    expect(((await ask(refusing(404, { message: 'Not Found' }))).outcome as VfError).message).not.toContain('/v1, try');
  });
});

describe('a chat server that fails as a server', () => {
  it('names the content encoding that was not asked for', async () => {
    const { outcome } = await ask((_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end('\x1f\x8b garbage'));
    expect(outcome).toMatchObject({ name: 'PolicyError', retryable: false, message: expect.stringContaining('Content-Encoding: gzip') });
  });

  it('marks a failure that was retried as one that needs no further retry', async () => {
    const down = refusing(503, { message: 'busy' });
    expect((await ask(down, { maxRetries: 2 })).outcome).toMatchObject({ retryable: true, isRetriedOut: true });
    expect((await ask(down)).outcome).toMatchObject({ retryable: true, isRetriedOut: false });
    const late = (await ask(() => {}, { timeoutMs: 20 })).outcome;
    expect(late).toBeInstanceOf(TimeoutError);
    expect(late).toMatchObject({ isRetriedOut: true });
  });
});
