import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { serpPassages, type SerpResult, SerperRetriever } from '../../src/retrieval/serper.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';
import { withTransport } from '../../src/transport/transport-settings.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';
import { WordRetriever } from './word-retriever.ts';

const signal = new AbortController().signal;
const apiKey = 'sk-serper-0123456789';

/** A loopback server in the shape of google.serper.dev: `{searchParameters, organic, credits}`. */
async function serperLike() {
  const words = new WordRetriever(CONTRACT_PASSAGES);
  return loopback(async (request, response) => {
    const { q, num } = JSON.parse(await readText(request)) as { q: string; num: number };
    if (request.headers['x-api-key'] !== apiKey) return sendJson(response, 403, { message: 'Unauthorized.', statusCode: 403 });
    const [hits] = await words.search([q], { topk: num, signal });
    const organic = hits!.map(({ contents }, i) => {
      const [title, snippet] = contents.split('\n');
      return { title: title!.slice(1, -1), link: `https://example.com/${i}`, snippet, position: i + 1 };
    });
    return sendJson(response, 200, { searchParameters: { q, num, type: 'search', engine: 'google' }, organic, credits: 1 });
  });
}

async function searching(handler: (request: IncomingMessage, response: ServerResponse) => unknown, query = 'q', topk = 2) {
  await using server = await loopback(handler);
  const retriever = new SerperRetriever({ apiKey, baseUrl: server.url, baseDelayMs: 1, maxRetries: 2, timeoutMs: 200 });
  try {
    const outcome = await withTransport({ maxWaitMs: 0 }, () => retriever.search([query], { topk, signal })).catch(
      (error: unknown) => error as Error,
    );
    return { outcome, requests: server.requests.length, url: server.url };
  } finally {
    await retriever.close();
  }
}

describe('serpPassages', () => {
  const { cases } = JSON.parse(readFileSync(new URL('../golden/parity/serp_process_result.json', import.meta.url), 'utf8')) as {
    cases: { id: string; input: { topk: number; search_result: SerpResult }; output: unknown }[];
  };

  it.each(cases)('orders results as upstream does: $id', ({ input, output }) => {
    expect(serpPassages(input.search_result, input.topk)).toEqual(output);
  });
});

describe('SerperRetriever', () => {
  retrieverContract(
    async () => {
      const server = await serperLike();
      const retriever = new SerperRetriever({ apiKey, baseUrl: server.url });
      return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
    },
    { isIndex: false },
  );

  it('posts the query, topk and the key', async () => {
    let seen: unknown;
    await searching(async (request, response) => {
      seen = [request.method, request.url, request.headers['x-api-key'], JSON.parse(await readText(request))];
      sendJson(response, 200, { organic: [] });
    }, 'who wrote "Hamlet"?');
    expect(seen).toEqual(['POST', '/search', apiKey, { q: 'who wrote "Hamlet"?', num: 2 }]);
  });

  it('gives the answer box, then topk organic results, then topk related questions', async () => {
    const body = {
      searchParameters: { q: 'q', type: 'search', num: 2, engine: 'google' },
      answerBox: { title: 'Box', answer: '42', link: 'https://example.com' },
      knowledgeGraph: { title: 'Graph', type: 'Thing' },
      organic: [1, 2, 3].map((i) => ({ title: `T${i}`, link: 'l', snippet: `s${i}`, position: i })),
      peopleAlsoAsk: [1, 2, 3].map((i) => ({ question: `Q${i}?`, snippet: i === 2 ? undefined : `a${i}`, title: 'page', link: 'l' })),
      relatedSearches: [{ query: 'more' }],
      credits: 1,
    };
    const { outcome } = await searching((_, response) => sendJson(response, 200, body));
    const contents = ['"Box"\n42', '"T1"\ns1', '"T2"\ns2', '"Q1?"\na1', '"Q2?"\nNo snippet available.'];
    expect(outcome).toEqual([contents.map((text) => ({ contents: text }))]);
  });

  it('prefers the snippet of an answer box to its short answer', async () => {
    const { outcome } = await searching((_, response) => sendJson(response, 200, { answerBox: { snippet: 'long', answer: 'short' }, organic: [] }));
    expect(outcome).toEqual([[{ contents: '"No title."\nlong' }]]);
  });

  it('sends nothing for a blank query', async () => {
    expect(await searching((_, response) => sendJson(response, 400, {}), ' \n')).toMatchObject({ outcome: [[]], requests: 0 });
  });

  it('never shows the key, even when the server echoes it', async () => {
    const { outcome, url, requests } = await searching((request, response) =>
      sendJson(response, 403, { message: `bad key ${String(request.headers['x-api-key'])}` }),
    );
    expect(outcome).toBeInstanceOf(RetrievalError);
    expect((outcome as Error).message).toBe(`[POST] ${url}/search: 403 {"message":"bad key ***"}; check SERPER_API_KEY`);
    expect(requests).toBe(1);
  });

  it.each([
    [401, { message: 'Unauthorized.' }],
    [402, {}],
    [400, { message: 'Not enough credits', statusCode: 400 }],
  ])('a %i that no later search can pass ends the run: %j', async (status, answer) => {
    const { outcome, requests } = await searching((_, response) => sendJson(response, status, answer));
    expect(outcome).toMatchObject({ name: 'RetrievalError', status, endsRun: true, retryable: false });
    expect(requests).toBe(1);
  });

  it.each([
    ['429', (r: ServerResponse) => sendJson(r, 429, { message: 'slow down' }), 1],
    ['500', (r: ServerResponse) => sendJson(r, 500, {}), 3],
    ['torn JSON', (r: ServerResponse) => r.end('{"organic": ['), 3],
    ['silence', () => {}, 3],
    ['a reset connection', (r: ServerResponse) => r.socket!.destroy(), 3],
    ['400', (r: ServerResponse) => sendJson(r, 400, { message: 'Not enough credits', statusCode: 400 }), 1],
    ['another shape', (r: ServerResponse) => sendJson(r, 200, { items: [] }), 1],
    ['null', (r: ServerResponse) => sendJson(r, 200, null), 1],
  ])('turns %s into a RetrievalError, retried only where that can help', async (_, misbehave, attempts) => {
    const { outcome, requests } = await searching((_request, response) => misbehave(response));
    expect(outcome).toBeInstanceOf(RetrievalError);
    expect((outcome as RetrievalError).message).toMatch(/http:\/\/127/);
    expect(requests).toBe(attempts);
  });

  it.each(['', 'two words', 'line\nfeed'])('refuses %j as a key without showing it', (key) => {
    expect(() => new SerperRetriever({ apiKey: key })).toThrow(ConfigError);
    expect(() => new SerperRetriever({ apiKey: key })).toThrow(/SERPER_API_KEY\.$/);
  });
});
