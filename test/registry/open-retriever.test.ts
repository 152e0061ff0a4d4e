import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { openRetriever } from '../../src/registry/open-retriever.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';

const signal = new AbortController().signal;

describe('openRetriever', () => {
  it('opens a bundled corpus by name, nq-mini by default', async () => {
    for (const options of [{}, { corpus: 'fact-world' }]) {
      const retriever = await openRetriever(options);
      const [list] = await retriever.search(['The mayor of Kinzer'], { topk: 3, signal });
      expect(list!.length).toBe(3);
      await retriever.close();
    }
  });

  it('reports how far the indexing of a corpus file is', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'vf-corpus-')), 'large.jsonl');
    writeFileSync(path, Array.from({ length: 5000 }, (_, i) => `{"id": "${i}", "contents": "${'word '.repeat(100)}"}\n`).join(''));
    const rows: number[] = [];
    const retriever = await openRetriever({ corpus: path, onProgress: (progress) => rows.push(progress.rows) });
    await retriever.close();
    expect(rows.length).toBeGreaterThan(0);
    expect(rows).toEqual(rows.toSorted((a, b) => a - b));
  });

  describe('with a corpus file', () => {
    retrieverContract(
      async () => {
        const path = join(mkdtempSync(join(tmpdir(), 'vf-corpus-')), 'mine.jsonl');
        writeFileSync(path, CONTRACT_PASSAGES.map((passage) => `${JSON.stringify(passage)}\n`).join(''));
        const retriever = await openRetriever({ corpus: path });
        return { retriever, [Symbol.asyncDispose]: () => retriever.close() };
      },
      { isIndex: true },
    );
  });

  it('asks a URL once for concurrent and repeated queries', async () => {
    const bodies: string[] = [];
    await using server = await loopback(async (request, response) => {
      const body = await readText(request);
      bodies.push(body);
      const { queries } = JSON.parse(body) as { queries: string[] };
      sendJson(response, 200, { result: queries.map((contents) => [{ document: { contents } }]) });
    });
    const retriever = await openRetriever({ retrieverUrl: server.url });
    for (const _ of [1, 2]) {
      const answers = await Promise.all(['a', 'b', 'a'].map((query) => retriever.search([query], { topk: 2, signal })));
      expect(answers.flat(2).map((passage) => passage.contents)).toEqual(['a', 'b', 'a']);
    }
    expect(bodies).toEqual(['{"queries":["a","b"],"topk":2,"return_scores":true}']);
    await retriever.close();
  });

  describe('with mustAnswer', () => {
    const ask = async (status: number, body: unknown) => {
      await using server = await loopback((_, response) => sendJson(response, status, body));
      const opened = openRetriever({ retrieverUrl: server.url, mustAnswer: true });
      const outcome = await opened.then(
        (retriever) => retriever.close(),
        (error: unknown) => error as Error,
      );
      return { outcome, requests: server.requests.length };
    };

    it.each([
      [200, { result: [[]] }],
      [503, { detail: 'loading' }],
      [429, {}],
    ])('accepts a server that answers, or is busy: %i', async (status, body) => {
      expect(await ask(status, body)).toEqual({ outcome: undefined, requests: 1 });
    });

    it.each<[number, unknown, RegExp]>([
      [404, { detail: 'Not Found' }, /http.* returned no passages: .* 404/],
      [401, {}, / 401/],
      [200, { passages: [] }, /expected \{"result"/],
    ])('refuses one that gives no passages: %i %j', async (status, body, message) => {
      const { outcome, requests } = await ask(status, body);
      expect(outcome).toBeInstanceOf(RetrievalError);
      expect((outcome as Error).message).toMatch(message);
      expect(requests).toBe(1);
    });
  });

  it('takes the key of the web engine from the environment it is given', async () => {
    await using server = await loopback((request, response) => sendJson(response, 200, { organic: [{ title: request.headers['x-api-key'] }] }));
    const retriever = await openRetriever({ engine: 'serper', env: { SERPER_API_KEY: 'k-123', SERPER_BASE_URL: server.url } });
    expect(await retriever.search(['q'], { topk: 1, signal })).toEqual([[{ contents: '"k-123"\nNo snippet available.' }]]);
    await retriever.close();
  });

  it.each([
    [
      { corpus: 'wiki-18' },
      /^The corpus "wiki-18" does not exist\. Use one of fact-world, nq-mini, rule-lookup, a \.jsonl file or a folder made by vf-index\.$/,
    ],
    [{ corpus: 'toString' }, /corpus "toString" does not exist/],
    [{ corpus: 'worked-problems' }, /corpus "worked-problems" does not exist/],
    [{ corpus: 'http://127.0.0.1:8000' }, /Pass the URL of a server as the retriever URL\.$/],
    [{ corpus: 'nq-mini', retrieverUrl: 'http://127.0.0.1:8000/retrieve' }, /two sources of passages/],
    [{ corpus: 'nq-mini', engine: 'serper' as const, env: { SERPER_API_KEY: 'k' } }, /two sources of passages/],
    [{ retrieverUrl: 'http://127.0.0.1:8000/retrieve', engine: 'bm25' as const }, /two sources of passages/],
    [{ retrieverUrl: 'localhost:8000' }, /does not begin with http/],
    [{ engine: 'http' as const }, /The engine http needs a retriever URL/],
    [{ engine: 'serper' as const, env: {} }, /SERPER_API_KEY/],
    [{ engine: 'google' as const, env: {} }, /GOOGLE_API_KEY/],
    [{ engine: 'searxng' as const, env: {} }, /SEARXNG_URL/],
    [
      { engine: 'bing' as never },
      /The engine must be one of bm25, dense, hybrid, http, qdrant, opensearch, serper, google, searxng, or the path of a module, such as \.\/my-engine\.ts, got "bing"/,
    ],
  ])('refuses %j in one line', async (options, message) => {
    const error = await openRetriever(options).catch((e: unknown) => e as Error);
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain('\n');
  });
});
