import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { basenames } from '../../environments/visual-rag/environment.ts';
import { ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import { PageServer } from '../../src/retrieval/page-server.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';
import { servePages } from './served-pages.ts';

const signal = new AbortController().signal;
const pageName = (imageFile: string) => basenames([imageFile])[0]!;
const hit = (file: string, idx = 0) => ({ idx, image_file: `./search_engine/corpus/img/${file}.jpg` });

type Handler = (request: IncomingMessage, response: ServerResponse, attempt: number) => unknown;

async function answering(form: 'post' | 'get', handler: Handler, options: object = {}) {
  let attempt = 0;
  const server = await loopback((request, response) => handler(request, response, ++attempt));
  const retriever = new PageServer({ url: `${server.url}/search`, form, pageName, baseDelayMs: 1, ...options });
  const dispose = () => retriever.close().then(() => server[Symbol.asyncDispose]());
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

describe('PageServer', () => {
  describe.each(['post', 'get'] as const)('form %s', (form) => {
    retrieverContract(
      async () => {
        const server = await servePages(await openBm25(CONTRACT_PASSAGES), form);
        const retriever = new PageServer({ url: server.url, form, pageName });
        return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
      },
      { isIndex: false, findsPages: true },
    );

    const answer = (lists: readonly unknown[]) => (form === 'get' ? lists : lists.map((results, i) => ({ request_idx: i, results })));

    it('gives the pages by their names, each once, at most topk', async () => {
      const files = ['deck.pdf_3', 'deck.pdf_1', 'deck.pdf_3', 'deck.pdf_2'].map(hit);
      await using at = await answering(form, (_, response) => sendJson(response, 200, answer([files])));
      expect(await at.retriever.search(['q'], { topk: 2, signal })).toEqual([
        [
          { id: 'deck.pdf_3', contents: 'deck.pdf_3' },
          { id: 'deck.pdf_1', contents: 'deck.pdf_1' },
        ],
      ]);
    });

    it('makes three attempts, as upstream', async () => {
      await using at = await answering(form, (_, response) => sendJson(response, 503, {}));
      expect(await failure(at.retriever.search(['q'], { topk: 1, signal }))).toMatchObject({ status: 503, retryable: true, isRetriedOut: true });
      expect(at.attempts()).toBe(3);
    });

    it.each([
      ['500', (r: ServerResponse) => sendJson(r, 500, {})],
      ['torn JSON', (r: ServerResponse) => r.writeHead(200).end('[[{"image_')],
      ['silence', () => {}],
    ])('recovers from %s', async (_, misbehave) => {
      const handler: Handler = (_request, response, attempt) => (attempt < 3 ? misbehave(response) : sendJson(response, 200, answer([[hit('a_1')]])));
      await using at = await answering(form, handler, { timeoutMs: 200 });
      expect(await at.retriever.search(['q'], { topk: 1, signal })).toEqual([[{ id: 'a_1', contents: 'a_1' }]]);
    });

    it.each([
      ['too few lists', [], /one (entry|list) for each query/],
      ['too many lists', answer([[], [], []]), /one (entry|list) for each query/],
      ['null', null, /one (entry|list) for each query/],
      ['results that are not a list', answer([[hit('a')], { image_file: 'x' }]), /the results of query 1 to be a list/],
      ['a result without a path', answer([[hit('a')], [hit('b'), { idx: 0 }]]), /result 1 of query 1 to be \{"image_file"/],
      ['a path of a megabyte', answer([[hit('a'.repeat(2 ** 20))], []]), /result 0 of query 0/],
      ['a path that names no page', answer([[], [{ image_file: './img/.jpg' }]]), /result 0 of query 1/],
    ])('refuses %s at once', async (_, body, message) => {
      await using at = await answering(form, (_request, response) => sendJson(response, 200, body));
      const error = await failure(at.retriever.search(['q', 'r'], { topk: 1, signal }));
      expect(error.message).toMatch(message);
      expect(error).toMatchObject({ status: 200, retryable: false });
      expect(at.attempts()).toBe(1);
    });

    it('reads no answer of any size', async () => {
      await using at = await answering(form, (_, response) => response.writeHead(200, { 'content-length': 9 * 2 ** 20 }).write('['));
      expect((await failure(at.retriever.search(['q'], { topk: 1, signal }))).message).toMatch(/returned more than 8,388,608 bytes/);
    });

    it('sends nothing for blank queries', async () => {
      await using at = await answering(form, () => {});
      expect(await at.retriever.search(['', ' \n'], { topk: 1, signal })).toEqual([[], []]);
      expect(at.server.requests).toEqual([]);
    });

    it.each(['', 'ftp://x/search', 'http://'])('refuses %j as a URL', (url) => {
      expect(() => new PageServer({ url, form })).toThrow(ConfigError);
    });
  });

  it('posts what DDAI posts, 32 queries at a time, and takes the answers in any order', async () => {
    const bodies: { query: string; id: string; request_idx: number }[][] = [];
    await using at = await answering('post', async (request, response) => {
      const body = JSON.parse(await readText(request)) as (typeof bodies)[number];
      bodies.push(body);
      sendJson(response, 200, body.map(({ query, request_idx: i }) => ({ request_idx: i, results: [hit(query)] })).toReversed());
    });
    const queries = Array.from({ length: 70 }, (_, i) => `q${i}`);
    const lists = await at.retriever.search(queries, { topk: 1, signal });
    expect(lists.map((list) => list[0]!.id)).toEqual(queries);
    expect(bodies.map((body) => body.length).toSorted((a, b) => b - a)).toEqual([32, 32, 6]);
    expect(bodies[0]![0]).toEqual({ query: 'q0', id: '-1', request_idx: 0 });
    expect(at.server.requests).toEqual(['POST /search', 'POST /search', 'POST /search']);
  });

  it('gets what VRAG gets, with URLs that stay short', async () => {
    await using at = await answering('get', (request, response) => {
      const queries = new URL(request.url!, 'http://x').searchParams.getAll('queries');
      sendJson(
        response,
        200,
        queries.map((query) => [hit(query.slice(0, 9))]),
      );
    });
    const queries = ['苏 & 黎', 'b=c', ...Array.from({ length: 9 }, (_, i) => `${i}${'x'.repeat(3000)}`)];
    const lists = await at.retriever.search(queries, { topk: 1, signal });
    expect(lists.map((list) => list[0]!.id)).toEqual(queries.map((query) => query.slice(0, 9)));
    expect(at.server.requests[0]).toMatch(/^GET \/search\?queries=%E8%8B%8F%20%26%20%E9%BB%8E&queries=b%3Dc&/);
    expect(Math.max(...at.server.requests.map((request) => request.length))).toBeLessThan(9000);
  });
});
