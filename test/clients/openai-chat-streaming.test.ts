import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { OpenAIChatClient, type OpenAIChatOptions } from '../../src/clients/openai-chat.ts';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';

const forever = new AbortController().signal;
type Body = Readonly<Record<string, unknown>>;

function sendStream(response: ServerResponse, contents: readonly string[], { isCut = false } = {}): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const content of contents)
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n: keep-alive\n\n`);
  if (isCut) return void response.end();
  response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\n`);
  response.write(`data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } })}\n\n`);
  response.end('data: [DONE]\n\n');
}

/** Asks twice, one after the other. */
async function asking(answer: (body: Body, response: ServerResponse, n: number) => unknown, options: Partial<OpenAIChatOptions> = {}) {
  const bodies: Body[] = [];
  const remarks: string[] = [];
  await using server = await loopback(async (request, response) => {
    const body = JSON.parse(await readText(request)) as Body;
    bodies.push(body);
    answer(body, response, bodies.length);
  });
  const versions = new PolicyVersions({ version: 0, model: 'm' });
  const client = new OpenAIChatClient({
    baseUrls: [`${server.url}/v1`],
    versions,
    baseDelayMs: 1,
    maxRetries: 2,
    onRemark: (line) => remarks.push(line),
    ...options,
  });
  const request = {
    prompt: [{ role: 'user', content: 'Who?' }],
    sampling: { temperature: null, topP: null },
    maxNewTokens: 9,
    stop: [],
    signal: forever,
  } as const;
  const results: unknown[] = [];
  for (let i = 0; i < 2; i++) {
    await using lease = await client.lease(forever);
    results.push(await lease.generate(request).catch((error: unknown) => error));
  }
  await client.close();
  return { results, bodies, remarks: remarks.map((line) => line.replace(server.url, '')) };
}

const answered = { text: 'Paris.', finish: 'stop', usage: { promptTokens: 3, completionTokens: 2, cachedTokens: null } };

describe('OpenAIChatClient and streams', () => {
  test.each([
    [
      400,
      {
        error: {
          message: 'This model only support stream mode, please enable the stream parameter to access the model. ',
          code: 'invalid_parameter_error',
        },
      },
      'the server answers only streams',
    ],
    [524, 'error code: 524', 'a gateway cut the silent connection (524)'],
  ])('after a %i it asks for streams, and says so once', async (status, refusal, why) => {
    const { results, bodies, remarks } = await asking((body, response) => {
      if (body['stream'] === true) return sendStream(response, ['Par', 'is.']);
      return typeof refusal === 'string' ? response.writeHead(status).end(refusal) : sendJson(response, status, refusal);
    });
    expect(results).toMatchObject([answered, answered]);
    expect(bodies.map(({ stream, stream_options }) => [stream, stream_options])).toEqual([
      [undefined, undefined],
      [true, { include_usage: true }],
      [true, { include_usage: true }],
    ]);
    expect(remarks).toEqual([`/v1 is asked for streams from now on: ${why}.`]);
  });

  test('true asks for streams from the first request, and reads the answer of a server that sends none', async () => {
    const plain = { choices: [{ finish_reason: 'stop', message: { content: 'Paris.' } }], usage: { prompt_tokens: 3, completion_tokens: 2 } };
    const { results, bodies } = await asking((_, response, n) => (n === 1 ? sendStream(response, ['Paris.']) : sendJson(response, 200, plain)), {
      stream: true,
    });
    expect(results).toMatchObject([answered, answered]);
    expect(bodies.every(({ stream }) => stream === true)).toBe(true);
  });

  test('false never does', async () => {
    const refusal = { error: { message: 'stream must be set to true' } };
    const { results, bodies, remarks } = await asking((_, response) => sendJson(response, 400, refusal), { stream: false });
    expect(results).toMatchObject([{ name: 'PolicyError', retryable: false }, { name: 'PolicyError' }]);
    expect([bodies.length, remarks]).toEqual([2, []]);
  });

  test('a stream that nobody asked for is read', async () => {
    const { results, bodies } = await asking((_, response) => sendStream(response, ['Par', 'is.']));
    expect(results).toMatchObject([answered, answered]);
    expect(bodies.map(({ stream }) => stream)).toEqual([undefined, undefined]);
  });

  test('a stream that was cut is asked for again', async () => {
    const cut = (response: ServerResponse) => sendStream(response, ['Par'], { isCut: true });
    const { results, bodies } = await asking((_, response, n) => (n % 2 === 1 ? cut(response) : sendStream(response, ['Paris.'])), { stream: true });
    expect(results).toMatchObject([answered, answered]);
    expect(bodies).toHaveLength(4);
  });

  test('an error in the stream is that of its status', async () => {
    const error = `data: ${JSON.stringify({ error: { message: 'Insufficient credits', code: 402 } })}\n\n`;
    const { results } = await asking((_, response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(error), { stream: true });
    expect(results[0]).toMatchObject({ name: 'PolicyError', status: 402, endsRun: true });
  });

  test('a server that rejects stream_options is asked without them', async () => {
    const { results, bodies, remarks } = await asking(
      (body, response) =>
        'stream_options' in body
          ? sendJson(response, 400, { error: { message: 'Unknown field: stream_options' } })
          : sendStream(response, ['Paris.']),
      { stream: true },
    );
    expect(results).toMatchObject([answered, answered]);
    expect(bodies).toHaveLength(3);
    expect(remarks).toEqual(['/v1 rejected stream_options, so it may not report the tokens of a stream.']);
  });
});
