import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, describeError, RetrievalError } from '../../src/core/errors.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import { HttpRetriever } from '../../src/retrieval/http-retriever.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';
import { loopback, readText, refusingUrl, sendJson } from '../transport/loopback.ts';
import { serve } from './served.ts';

const signal = new AbortController().signal;
const hit = (contents: string) => ({ document: { contents }, score: 1 });

async function answering(handler: (request: IncomingMessage, response: ServerResponse, attempt: number) => unknown, options: object = {}) {
  let attempt = 0;
  const server = await loopback((request, response) => handler(request, response, ++attempt));
  const retriever = new HttpRetriever({ url: `${server.url}/retrieve`, baseDelayMs: 1, ...options });
  const dispose = async () => {
    await retriever.close();
    await server[Symbol.asyncDispose]();
  };
  return { server, retriever, attempts: () => attempt, [Symbol.asyncDispose]: dispose };
}

const failure = async (search: Promise<unknown>): Promise<RetrievalError> => {
  const error = await search.then(
    () => expect.unreachable('the search succeeded'),
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(RetrievalError);
  return error as RetrievalError;
};

describe('HttpRetriever', () => {
  retrieverContract(
    async () => {
      const server = await serve(await openBm25(CONTRACT_PASSAGES));
      const retriever = new HttpRetriever({ url: server.url });
      return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
    },
    { isIndex: true },
  );

  describe("UltraRAG's protocol", () => {
    retrieverContract(
      async () => {
        const server = await serve(await openBm25(CONTRACT_PASSAGES));
        const retriever = new HttpRetriever({ url: server.url.replace(/retrieve$/, 'search'), protocol: 'search' });
        return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
      },
      { isIndex: false },
    );
  });

  it('posts what upstream posts', async () => {
    let body = '';
    await using at = await answering(async (request, response) => {
      body = await readText(request);
      sendJson(response, 200, { result: [[hit('a')], []] });
    });
    expect(await at.retriever.search(['x "y"', '苏'], { topk: 5, signal })).toEqual([[{ contents: 'a', score: 1 }], []]);
    expect(at.server.requests).toEqual(['POST /retrieve']);
    expect(JSON.parse(body)).toEqual({ queries: ['x "y"', '苏'], topk: 5, return_scores: true });
  });

  it('quotes no password that a server repeats, whole or cut', async () => {
    for (const body of ['hunter2-secret ', `${'[1] '.repeat(6)}hunter2-secret${' x'.repeat(40)}`]) {
      await using server = await loopback((_, response) => response.end(body));
      const retriever = new HttpRetriever({ url: server.url.replace('//', '//me:hunter2-secret@'), maxRetries: 0 });
      const error = await failure(retriever.search(['a'], { topk: 1, signal }));
      await retriever.close();
      expect(describeError(error)).not.toContain('hunter2');
    }
  });

  it('sends nothing when there is no query', async () => {
    await using at = await answering((_, response) => sendJson(response, 200, { result: [] }));
    expect(await at.retriever.search([], { topk: 3, signal })).toEqual([]);
    expect(at.server.requests).toEqual([]);
  });

  it('adds /retrieve to a bare origin and keeps any other path and query', async () => {
    const seen: string[] = [];
    const names: string[] = [];
    await using server = await loopback((request, response) => {
      seen.push(`${request.url} ${request.headers.authorization ?? '-'}`);
      sendJson(response, 200, { result: [[]] });
    });
    const host = server.url.replace('http://', '');
    for (const url of [`http://${host}`, `http://${host}/`, `http://${host}/a/b?k=v#f`, `http://${host}/search/`, `http://us:pa%20ss@${host}/r`]) {
      const retriever = new HttpRetriever({ url });
      await retriever.search(['q'], { topk: 1, signal });
      names.push(retriever.name.replace(host, ''));
      await retriever.close();
    }
    const basic = `Basic ${Buffer.from('us:pa ss').toString('base64')}`;
    expect(seen).toEqual(['/retrieve -', '/retrieve -', '/a/b?k=v -', '/search/ -', `/r ${basic}`]);
    expect(names).toEqual(['http:///retrieve', 'http:///retrieve', 'http:///a/b?k=v', 'http:///search/', 'http://***@/r']);
  });

  it('keeps user, password and keys out of its name and its errors', async () => {
    await using server = await loopback((_, response) => sendJson(response, 400, { detail: 'no' }));
    const retriever = new HttpRetriever({ url: `${server.url.replace('//', '//user:hunter2@')}/x?api_key=swordfish` });
    const error = await failure(retriever.search(['q'], { topk: 1, signal }));
    expect(error.message).toMatch(/^\[POST\] http:\/\/\*\*\*@127.*\/x\?api_key=\*\*\*: 400 \{"detail":"no"\}/);
    expect(`${retriever.name} ${error.message}`).not.toMatch(/hunter2|swordfish/);
    await retriever.close();
  });

  it.each(['', 'retrieve', 'ftp://x/retrieve', 'http://'])('refuses %j as a URL', (url) => {
    expect(() => new HttpRetriever({ url })).toThrow(ConfigError);
  });

  it.each([
    ['500', (r: ServerResponse) => sendJson(r, 500, {})],
    ['503', (r: ServerResponse) => sendJson(r, 503, {}, { 'retry-after': '0' })],
    ['429 with Retry-After', (r: ServerResponse) => sendJson(r, 429, {}, { 'retry-after': '0' })],
    ['a reset connection', (r: ServerResponse) => r.socket!.destroy()],
    ['an answer cut in the middle', (r: ServerResponse) => r.writeHead(200, { 'content-length': 100 }).end('{"result"') && r.socket!.destroy()],
    ['torn JSON', (r: ServerResponse) => r.writeHead(200).end('{"result": [[{"docu')],
    ['silence', () => {}],
  ])('recovers from %s', async (_, misbehave) => {
    const handler = (_request: IncomingMessage, response: ServerResponse, attempt: number) =>
      attempt < 3 ? misbehave(response) : sendJson(response, 200, { result: [[hit('found')]] });
    await using at = await answering(handler, { timeoutMs: 200 });
    expect(await at.retriever.search(['q'], { topk: 1, signal })).toEqual([[{ contents: 'found', score: 1 }]]);
    expect(at.attempts()).toBe(3);
  });

  it('fails at once when Retry-After asks for a longer wait than allowed', async () => {
    await using at = await answering((_, response) => sendJson(response, 429, {}, { 'retry-after': '7200' }));
    expect(await failure(at.retriever.search(['q'], { topk: 1, signal }))).toMatchObject({ status: 429, retryAfterMs: 7_200_000, endsRun: true });
    expect(at.attempts()).toBe(1);
  });

  it('ends the run at a quota that is used up, without waiting for it as for a rate limit', async () => {
    const spent = { error: { message: 'You exceeded your current quota', code: 'insufficient_quota' } };
    await using at = await answering((_, response) => sendJson(response, 429, spent));
    const error = await failure(at.retriever.search(['q'], { topk: 1, signal }));
    expect(error).toMatchObject({ status: 429, retryable: false, endsRun: true, message: expect.stringMatching(/the account has no credit left$/) });
    expect(at.attempts()).toBe(1);
  });

  it('fails with the last status once its retries are spent', async () => {
    await using at = await answering((_, response) => sendJson(response, 503, { detail: 'x'.repeat(1000) }), { maxRetries: 2 });
    const error = await failure(at.retriever.search(['q'], { topk: 1, signal }));
    expect(at.attempts()).toBe(3);
    expect(error).toMatchObject({ status: 503, retryable: true });
    expect(error.message).toBe(`[POST] ${at.server.url}/retrieve: 503 {"detail":"${'x'.repeat(189)}`);
  });

  it('names the URL when nothing listens there and when nothing answers', async () => {
    const url = `${await refusingUrl()}/retrieve`;
    const refused = new HttpRetriever({ url, maxRetries: 1, baseDelayMs: 1 });
    expect((await failure(refused.search(['q'], { topk: 1, signal }))).message).toMatch(/^http.*\/retrieve did not answer: .*ECONNREFUSED/);
    await refused.close();
    await using at = await answering(() => {}, { maxRetries: 1, timeoutMs: 30 });
    const error = await failure(at.retriever.search(['q'], { topk: 1, signal }));
    expect(error.message).toMatch(/^\[POST\] http.*\/retrieve: There was no answer within 30 ms/);
    expect(error.retryable).toBe(false);
    expect(at.attempts()).toBe(2);
  });

  it.each([
    ['too few lists', { result: [[]] }, /one list for each of 2 queries, got 1/],
    ['too many lists', { result: [[], [], []] }, /one list for each of 2 queries, got 3/],
    ['no result', { results: [[], []] }, /expected \{"result"/],
    ['null', null, /expected \{"result"/],
    ['an entry that is not a list', { result: [[], {}] }, /expected result\[1\] to be a list/],
    ['bare documents of upstream without scores', { result: [{ contents: 'a' }, { contents: 'b' }] }, /expected result\[0\] to be a list/],
    ['a passage without text', { result: [[], [hit('a'), { document: { id: '1' }, score: 2 }]] }, /expected result\[1\]\[1\] to hold "contents"/],
    ['a passage that is a number', { result: [[3], []] }, /expected result\[0\]\[0\]/],
  ])('refuses %s at once', async (_, body, message) => {
    await using at = await answering((_request, response) => sendJson(response, 200, body));
    const error = await failure(at.retriever.search(['q', 'r'], { topk: 1, signal }));
    expect(error.message).toMatch(message);
    expect(error).toMatchObject({ status: 200, retryable: false });
    expect(at.attempts()).toBe(1);
  });

  it('does not repeat a request the server refused for good', async () => {
    await using at = await answering((_, response) => sendJson(response, 422, { detail: 'topk' }));
    expect(await failure(at.retriever.search(['q'], { topk: 1, signal }))).toMatchObject({ status: 422, retryable: false });
    expect(at.attempts()).toBe(1);
  });

  it('gives up its socket when the caller aborts', async () => {
    const controller = new AbortController();
    await using at = await answering(() => controller.abort());
    await expect(at.retriever.search(['q'], { topk: 1, signal: controller.signal })).rejects.toThrow(CancelledError);
    await at.server.dropped();
  });
});
