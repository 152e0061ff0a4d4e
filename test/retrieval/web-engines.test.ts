/** Google's Custom Search and SearXNG over loopback servers in their shape; serper.test.ts has the third engine of the web. */
import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { GoogleRetriever } from '../../src/retrieval/google.ts';
import { SearxngRetriever } from '../../src/retrieval/searxng.ts';
import type { WebRetrieverOptions } from '../../src/retrieval/web-retriever.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';
import { withTransport } from '../../src/transport/transport-settings.ts';
import { loopback, sendJson } from '../transport/loopback.ts';
import { WordRetriever } from './word-retriever.ts';

const signal = new AbortController().signal;
const apiKey = 'AIza-0123456789';

interface Engine {
  readonly path: string;
  readonly open: (options: WebRetrieverOptions) => GoogleRetriever | SearxngRetriever;
  readonly body: (results: readonly { title: string; text: string }[]) => unknown;
  readonly empty: unknown;
}

const ENGINES: [string, Engine][] = [
  [
    'GoogleRetriever',
    {
      path: '/customsearch/v1',
      open: (options) => new GoogleRetriever({ ...options, apiKey, searchEngineId: 'cx:1' }),
      body: (results) => ({ kind: 'customsearch#search', items: results.map(({ title, text }) => ({ title, snippet: text, link: 'https://x' })) }),
      empty: { kind: 'customsearch#search', searchInformation: { totalResults: '0' } },
    },
  ],
  [
    'SearxngRetriever',
    {
      path: '/search',
      open: (options) => new SearxngRetriever(options),
      body: (results) => ({ query: 'q', results: results.map(({ title, text }) => ({ title, content: text, url: 'https://x', engine: 'x' })) }),
      empty: { query: 'q', results: [] },
    },
  ],
];

describe.each(ENGINES)('%s', (_name, { path, open, body, empty }) => {
  const like = async () => {
    const words = new WordRetriever(CONTRACT_PASSAGES);
    return loopback(async (request, response) => {
      const url = new URL(request.url!, 'http://x');
      const [hits] = await words.search([url.searchParams.get('q')!], { topk: 10, signal });
      const results = hits!.map(({ contents }) => ({ title: contents.split('\n')[0]!.slice(1, -1), text: contents.split('\n')[1]! }));
      sendJson(response, 200, results.length === 0 ? empty : body(results));
    });
  };

  const searching = async (handler: Parameters<typeof loopback>[0], topk = 2, query = 'who wrote "Hamlet"? & more') => {
    await using server = await loopback(handler);
    const retriever = open({ baseUrl: server.url, baseDelayMs: 1, maxRetries: 2, timeoutMs: 200 });
    const outcome = await withTransport({ maxWaitMs: 0 }, () => retriever.search([query], { topk, signal })).catch(
      (error: unknown) => error as Error,
    );
    await retriever.close();
    return { outcome, requests: server.requests, name: retriever.name };
  };

  retrieverContract(
    async () => {
      const server = await like();
      const retriever = open({ baseUrl: server.url });
      return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
    },
    { isIndex: false },
  );

  it('asks for the query as it is, and gives at most topk results with their titles', async () => {
    const results = ['a', 'b', 'c'].map((title) => ({ title, text: `about ${title}` }));
    const { outcome, requests } = await searching((_, response) => sendJson(response, 200, body(results)));
    const url = new URL(requests[0]!.split(' ')[1]!, 'http://x');
    expect([url.pathname, url.searchParams.get('q')]).toEqual([path, 'who wrote "Hamlet"? & more']);
    expect(outcome).toEqual([[{ contents: '"a"\nabout a' }, { contents: '"b"\nabout b' }]]);
  });

  it('cuts a query that no URL can hold', async () => {
    const { outcome, requests } = await searching((_, response) => sendJson(response, 200, empty), 2, 'word '.repeat(10_000));
    expect(outcome).toEqual([[]]);
    expect(new URL(requests[0]!.split(' ')[1]!, 'http://x').searchParams.get('q')).toHaveLength(2048);
  });

  it('gives results without a title or text a line that says so, and leaves out what is none', async () => {
    const bare = JSON.parse(JSON.stringify(body([{ title: '', text: '' }]))) as Record<string, unknown[]>;
    for (const list of Object.values(bare)) if (Array.isArray(list)) list.push(null, 'text', 3);
    const { outcome } = await searching((_, response) => sendJson(response, 200, bare), 5);
    expect(outcome).toEqual([[{ contents: '"No title."\nNo snippet available.' }]]);
  });

  it.each([
    ['429', (r: ServerResponse) => sendJson(r, 429, {}), 1],
    ['500', (r: ServerResponse) => sendJson(r, 500, {}), 3],
    ['torn JSON', (r: ServerResponse) => r.end('{"items": ['), 3],
    ['silence', () => {}, 3],
    ['a reset connection', (r: ServerResponse) => r.socket!.destroy(), 3],
    ['400', (r: ServerResponse) => sendJson(r, 400, { error: 'bad' }), 1],
    ['403', (r: ServerResponse) => sendJson(r, 403, { error: 'no' }), 1],
    ['another shape', (r: ServerResponse) => sendJson(r, 200, { organic: [] }), 1],
    ['null', (r: ServerResponse) => sendJson(r, 200, null), 1],
  ])('turns %s into a RetrievalError, retried only where that can help', async (_case, misbehave, attempts) => {
    const { outcome, requests } = await searching((_request, response) => misbehave(response));
    expect(outcome).toBeInstanceOf(RetrievalError);
    expect((outcome as RetrievalError).message).toMatch(/http:\/\/127/);
    expect(requests).toHaveLength(attempts);
  });
});

describe('keys of web engines', () => {
  it('go into a header, and are never shown', async () => {
    let seen: unknown;
    await using server = await loopback((request, response) => {
      seen = [request.headers['x-goog-api-key'], request.url];
      sendJson(response, 403, { error: `bad key ${apiKey}` });
    });
    const retriever = new GoogleRetriever({ apiKey, searchEngineId: 'cx1', baseUrl: server.url });
    const outcome = await retriever.search(['q'], { topk: 20, signal }).catch((error: unknown) => error as Error);
    expect(seen).toEqual([apiKey, '/customsearch/v1?cx=cx1&num=10&q=q']);
    expect((outcome as Error).message).toMatch(/403 .*\*\*\*.*; check GOOGLE_API_KEY and GOOGLE_CSE_ID$/);
    expect(`${(outcome as Error).message} ${retriever.name}`).not.toContain(apiKey);
    await retriever.close();
  });

  it('are asked for by the name of their variable when missing', () => {
    expect(() => new GoogleRetriever({ apiKey: '', searchEngineId: 'x' })).toThrow(
      new ConfigError('The Google API key is missing or contains invalid characters. Set GOOGLE_API_KEY.'),
    );
    expect(() => new GoogleRetriever({ apiKey: 'k', searchEngineId: '' })).toThrow(/GOOGLE_CSE_ID/);
    expect(() => new SearxngRetriever({})).toThrow(/SEARXNG_URL/);
  });
});
