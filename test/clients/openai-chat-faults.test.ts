import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { OpenAIChatClient, type OpenAIChatOptions } from '../../src/clients/openai-chat.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { CancelledError, NumericPolicyError, PolicyError, PromptTooLongError, TimeoutError, type VfError } from '../../src/core/errors.ts';
import { loopback, refusingUrl, sendJson } from '../transport/loopback.ts';

const forever = new AbortController().signal;
const good = { choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: 'ok' } }] };
type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;
const failing =
  (status: number, error: object | string, headers: Record<string, string> = {}): Handler =>
  (_, response) =>
    typeof error === 'string' ? response.writeHead(status, headers).end(error) : sendJson(response, status, { error }, headers);

interface Outcome {
  readonly result: string | VfError;
  readonly requests: number;
  readonly delayedMs: number;
}

/** Asks once; each request is handled by the next handler, those beyond the last by a server that works. */
async function outcome(handlers: readonly Handler[], more: Partial<OpenAIChatOptions> = {}, signal: AbortSignal = forever): Promise<Outcome> {
  let next = 0;
  await using server = await loopback((request, response) => (handlers[next++] ?? ((_, ok) => sendJson(ok, 200, good)))(request, response));
  const versions = new PolicyVersions({ version: 0, model: 'the-model' });
  const client = new OpenAIChatClient({ baseUrls: [`${server.url}/v1`], versions, baseDelayMs: 1, maxRetries: 2, ...more });
  const started = performance.now();
  try {
    await using lease = await client.lease(forever);
    const request = {
      prompt: [{ role: 'user', content: 'Who?' }],
      sampling: { temperature: 1, topP: 1 },
      maxNewTokens: 9,
      stop: [],
      signal,
    } as const;
    const result = await lease.generate(request).then(
      (sample) => sample.text,
      (error: unknown) => error as VfError,
    );
    return { result, requests: server.requests.length, delayedMs: performance.now() - started };
  } finally {
    await client.close();
  }
}

/** The texts of requests, one after the other. */
async function answers(count: number, options: Pick<OpenAIChatOptions, 'baseUrls'> & Partial<OpenAIChatOptions>): Promise<string[]> {
  const client = new OpenAIChatClient({ versions: new PolicyVersions({ version: 0, model: 'm' }), baseDelayMs: 1, ...options });
  const sampling = { temperature: null, topP: null };
  const texts: string[] = [];
  try {
    await using lease = await client.lease(forever);
    while (texts.length < count) {
      const { text } = await lease.generate({ prompt: [{ role: 'user', content: 'Who?' }], sampling, maxNewTokens: 9, stop: [], signal: forever });
      texts.push(text);
    }
    return texts;
  } finally {
    await client.close();
  }
}

describe('OpenAIChatClient', () => {
  test.each<[string, Handler]>([
    ['a dropped connection', (request) => request.socket.destroy()],
    ['a 500', failing(500, { message: 'boom' })],
    ['a 503 that is not JSON', failing(503, '<html>busy</html>')],
    ['a gateway that timed out', failing(504, 'upstream request timed out')],
    ['torn JSON', (_, response) => response.end('{"choices": [{"message": {"con')],
    ['HTML with status 200', (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
    ['an empty body', (_, response) => response.end()],
    ['no choices', (_, response) => sendJson(response, 200, { choices: [] })],
    ['null content', (_, response) => sendJson(response, 200, { choices: [{ finish_reason: 'stop', message: { content: null } }] })],
    ['a null answer', (_, response) => sendJson(response, 200, null)],
    ['an error next to an answer', (_, response) => sendJson(response, 200, { ...good, error: { message: 'upstream failed', code: 502 } })],
    ['an error with status 200', (_, response) => sendJson(response, 200, { error: { message: 'upstream failed', code: 502 } })],
  ])('survives %s by asking again', async (_, handler) => {
    expect(await outcome([handler])).toMatchObject({ result: 'ok', requests: 2 });
    const { result, requests } = await outcome([handler, handler, handler]);
    expect(requests).toBe(3);
    expect(result).toBeInstanceOf(PolicyError);
    expect((result as PolicyError).retryable).toBe(true);
  });

  test.each([429, 529])('a %i is waited for and uses up no retry', async (status) => {
    const limit = failing(status, { message: 'slow down' });
    expect(await outcome([limit, limit, limit, limit])).toMatchObject({ result: 'ok', requests: 5 });
  });

  test('waits as long as a 429 asks', async () => {
    const { result, delayedMs } = await outcome([failing(429, { message: 'slow down' }, { 'retry-after': '0.05' })]);
    expect(result).toBe('ok');
    expect(delayedMs).toBeGreaterThanOrEqual(50);
  });

  test('a wait for a rate limit stops the clock of the one who leased', async () => {
    let refusals = 2;
    await using server = await loopback((_, response) =>
      refusals-- > 0 ? sendJson(response, 429, { error: {} }, { 'retry-after-ms': '20' }) : sendJson(response, 200, good),
    );
    const versions = new PolicyVersions({ version: 0, model: 'm' });
    const client = new OpenAIChatClient({ baseUrls: [server.url], versions, baseDelayMs: 1 });
    const held: string[] = [];
    const onWait = () => {
      held.push('begins');
      return { [Symbol.dispose]: () => void held.push('ends') };
    };
    await using lease = await client.lease(forever, { onWait });
    await lease.generate({ prompt: [], sampling: { temperature: 1, topP: 1 }, maxNewTokens: 9, stop: [], signal: forever });
    expect(held).toEqual(['begins', 'ends', 'begins', 'ends']);
    await client.close();
  });

  test.each([401, 403])('a %i names the variable of the key, never the key, and is final', async (status) => {
    const handler = failing(status, { message: 'Incorrect API key provided: sk-hunter22' });
    const { result, requests } = await outcome([handler], { apiKey: 'sk-hunter22', apiKeyVariable: 'MY_API_KEY' });
    expect(result).toBeInstanceOf(PolicyError);
    expect((result as VfError).message).toMatch(new RegExp(`${status}.*MY_API_KEY`));
    expect(JSON.stringify([(result as VfError).message, (result as VfError).stack])).not.toContain('hunter22');
    expect(requests).toBe(1);
  });

  test('a 404 names the model', async () => {
    const { result, requests } = await outcome([failing(404, { message: 'not found' })]);
    expect((result as VfError).message).toContain('the-model');
    expect(requests).toBe(1);
  });

  test.each([
    [400, { message: "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens", code: 'context_length_exceeded' }],
    [400, { message: 'prompt is too long: 210000 tokens > 200000 maximum' }],
    [400, { message: 'You passed 5001 input tokens', param: 'input_tokens' }],
    [413, { message: 'Input exceeds the context window' }],
  ])('a %i about the window is PromptTooLongError: %j', async (status, error) => {
    const { result, requests } = await outcome([failing(status, error)]);
    expect(result).toBeInstanceOf(PromptTooLongError);
    expect(requests).toBe(1);
  });

  test.each<[string, Handler, RegExp]>([
    ['a bad request', failing(400, { message: 'temperature must be at most 2' }), /temperature must be at most 2/],
    ['an empty account', failing(429, { message: 'You exceeded your quota', code: 'insufficient_quota' }), /billing/],
    ['a redirect', failing(307, '', { location: 'http://127.0.0.1:1/' }), /redirects to http:\/\/127.0.0.1:1\//],
    [
      'a content filter',
      (_, response) => sendJson(response, 200, { choices: [{ finish_reason: 'content_filter', message: { content: 'x' } }] }),
      /filter/,
    ],
    [
      'a refusal',
      (_, response) => sendJson(response, 200, { choices: [{ finish_reason: 'stop', message: { content: null, refusal: 'No.' } }] }),
      /refused to answer: "No\."/,
    ],
  ])('%s is final', async (_, handler, message) => {
    const { result, requests } = await outcome([handler]);
    expect(result).toBeInstanceOf(PolicyError);
    expect((result as VfError).message).toMatch(message);
    expect([requests, (result as VfError).retryable]).toEqual([1, false]);
  });

  test('a NaN inside the server is its numeric failure, not a bad request', async () => {
    const { result } = await outcome([failing(400, { message: 'Out of range float values are not JSON compliant: nan' })]);
    expect(result).toBeInstanceOf(NumericPolicyError);
  });

  test('a server that hangs is a timeout after its retries', async () => {
    const { result, requests } = await outcome([() => {}, () => {}, () => {}], { timeoutMs: 20 });
    expect(result).toBeInstanceOf(TimeoutError);
    expect(requests).toBe(3);
  });

  test('an abort frees the connection', async () => {
    const controller = new AbortController();
    await using server = await loopback(() => controller.abort(new Error('Ctrl-C')));
    const client = new OpenAIChatClient({ baseUrls: [server.url], versions: new PolicyVersions({ version: 0, model: 'm' }) });
    await using lease = await client.lease(forever);
    const request = { prompt: [], sampling: { temperature: 1, topP: 1 }, maxNewTokens: 9, stop: [], signal: controller.signal };
    await expect(lease.generate(request)).rejects.toThrow(CancelledError);
    await server.dropped();
    await client.close();
  });

  test('new trajectories avoid a replica that is down', async () => {
    await using server = await loopback((_, response) => sendJson(response, 200, good));
    const versions = new PolicyVersions({ version: 0, model: 'm' });
    const client = new OpenAIChatClient({ baseUrls: [await refusingUrl(), server.url], versions, maxRetries: 0 });
    const request = { prompt: [], sampling: { temperature: 1, topP: 1 }, maxNewTokens: 9, stop: [], signal: forever };
    {
      await using lease = await client.lease(forever);
      await expect(lease.generate(request)).rejects.toThrow(/ECONNREFUSED/);
    }
    for (let i = 0; i < 3; i++) {
      await using lease = await client.lease(forever);
      expect((await lease.generate(request)).text).toBe('ok');
    }
    await client.close();
  });

  test('an Azure deployment is asked at its path, with its version and its key', async () => {
    const asked: (string | undefined)[] = [];
    await using server = await loopback((request, response) => {
      asked.push(request.url, request.headers['api-key'] as string | undefined, request.headers.authorization);
      sendJson(response, 200, good);
    });
    const baseUrls = [`${server.url}/openai/deployments/gpt?api-version=2024-10-21`];
    expect(await answers(1, { baseUrls, headers: { 'api-key': 'secret' } })).toEqual(['ok']);
    expect(asked).toEqual(['/openai/deployments/gpt/chat/completions?api-version=2024-10-21', 'secret', undefined]);
  });

  test('a server that closes every third socket answers every request', async () => {
    let n = 0;
    await using server = await loopback((request, response) => (++n % 3 === 0 ? request.socket.destroy() : sendJson(response, 200, good)));
    expect(await answers(9, { baseUrls: [`${server.url}/v1`], maxRetries: 3 })).toEqual(Array(9).fill('ok'));
  });

  test('an answer of megabytes is read, one beyond the bound is not', async () => {
    const content = '<search>'.repeat(1_000_000);
    const answer = { choices: [{ finish_reason: 'stop', message: { content } }] };
    expect((await outcome([(_, response) => sendJson(response, 200, answer)])).result).toHaveLength(content.length);
    const { result } = await outcome([(_, response) => response.writeHead(200, { 'content-length': String(2 ** 30) }).write('{')]);
    expect((result as VfError).message).toMatch(/more than [\d,]+ bytes/);
  });
});
