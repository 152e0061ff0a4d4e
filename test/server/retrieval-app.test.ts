import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RetrievalError, TimeoutError } from '../../src/core/errors.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import type { Passage, Retriever } from '../../src/retrieval/retriever.ts';
import { retrievalApp, type RetrievalAppOptions } from '../../src/server/retrieval-app.ts';
import { CONTRACT_PASSAGES } from '../contracts/retriever.ts';
import { WordRetriever } from '../retrieval/word-retriever.ts';

type Options = Omit<RetrievalAppOptions, 'retriever'>;

const JSON_TYPE = { 'content-type': 'application/json' };
const index = await openBm25(CONTRACT_PASSAGES, { name: 'bm25 contract' });

async function post(body: unknown, { retriever = index, ...options }: Options & { retriever?: Retriever } = {}) {
  const text = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
  const response = await retrievalApp({ retriever, ...options }).request('/retrieve', { method: 'POST', headers: JSON_TYPE, body: text });
  return { status: response.status, headers: response.headers, body: (await response.json()) as { detail?: string; result?: object[][] } };
}

describe('retrievalApp', () => {
  interface GoldenCase {
    id: string;
    input: { default_topk: number; corpus_hits: Record<string, Passage[]>; body: unknown };
    output: { status: number; body?: unknown };
    tags: string[];
  }
  const golden = JSON.parse(readFileSync(new URL('../golden/parity/retrieve_endpoint.json', import.meta.url), 'utf8')) as { cases: GoldenCase[] };

  it.each(golden.cases.filter(({ tags }) => !tags.includes('upstream_bug')))('answers as upstream does: $id', async ({ input, output }) => {
    const stub: Retriever = {
      name: 'stub',
      search: async (queries, { topk }) =>
        queries.map((query) => input.corpus_hits[query]!.slice(0, topk).map((hit, i) => ({ ...hit, score: Math.round((1 - i / 10) * 10) / 10 }))),
      close: async () => {},
    };
    const { status, body } = await post(input.body, { retriever: stub, defaultTopk: input.default_topk });
    expect(status === 200 ? { status, body } : { status }).toEqual(output);
  });

  it('gives bare documents when no scores are asked for, where upstream fails', async () => {
    const document = CONTRACT_PASSAGES[1];
    for (const scores of [{}, { return_scores: false }, { return_scores: 0 }, { return_scores: 'off' }])
      expect(await post({ queries: ['river', 'xylophone'], topk: 1, ...scores })).toMatchObject({ status: 200, body: { result: [[document], []] } });
  });

  it('leaves id and score out where the engine gives none, or not a number', async () => {
    const passages = [{ contents: 'a' }, { contents: 'b', score: NaN }, { id: '', contents: 'c', score: 0 }];
    const retriever: Retriever = { name: 'web', search: async () => [passages], close: async () => {} };
    const { body } = await post({ queries: ['q'], return_scores: true }, { retriever });
    expect(body.result).toEqual([
      [{ document: { contents: 'a' } }, { document: { contents: 'b' } }, { document: { id: '', contents: 'c' }, score: 0 }],
    ]);
  });

  it.each([
    ['topk', [null, 0, false, '0', -0], 3],
    ['topk', [2, '2', ' 2 ', '2.0', '+2', '0_2'], 2],
    ['topk', [true, 1.0], 1],
  ])('coerces %s %j as pydantic does', async (_, values, topk) => {
    const retriever = new WordRetriever(CONTRACT_PASSAGES);
    for (const value of values) expect(await post({ queries: ['mayor'], topk: value }, { retriever })).toMatchObject({ status: 200 });
    expect(retriever.asked.map((asked) => asked.topk)).toEqual(values.map(() => topk));
  });

  it.each([
    ['no body', '', /^The body is not JSON: /],
    ['torn JSON', '{"queries": ["a"', /^The body is not JSON: /],
    ['bytes that are not UTF-8', new Uint8Array([0x22, 0xff, 0x22]), /UTF-8/],
    ['null', null, /^Expected a JSON object with "queries", got null/],
    ['a list', [1], /got a list/],
    ['no queries', {}, /^queries: expected a list of strings, got nothing/],
    ['one query alone', { queries: 'a' }, /^queries: expected a list of strings, got a string/],
    ['a list under query', { query: ['a'] }, /^query: expected a string, got a list/],
    ['a number among the queries', { queries: ['a', 1] }, /^queries\[1\]: expected a string, got 1/],
    ['a fraction', { queries: ['a'], topk: 2.5 }, /^topk: expected an integer of at least 0, got 2.5/],
    ['a negative topk', { queries: ['a'], topk: -1 }, /^topk/],
    ['a huge topk', { queries: ['a'], topk: 1e300 }, /^topk must be at most 1000/],
    ['a word for topk', { queries: ['a'], topk: 'three' }, /^topk/],
    ['an object for topk', { queries: ['a'], topk: {} }, /^topk/],
    ['2 for true', { queries: ['a'], return_scores: 2 }, /^return_scores: expected true or false/],
    ['null for true', { queries: ['a'], return_scores: null }, /^return_scores/],
  ])('says what is wrong with %s (422)', async (_, body, detail) => {
    const answer = await post(body);
    expect(answer.status).toBe(422);
    expect(answer.body.detail).toMatch(detail);
  });

  it('answers a single query as a list of one, as SkyRL’s search client asks', async () => {
    const one = await post({ query: 'mayor', topk: 2, return_scores: true });
    expect(one).toEqual(await post({ queries: ['mayor'], topk: 2, return_scores: true }));
    expect(one.status).toBe(200);
  });

  it('refuses more queries or passages than its limits allow', async () => {
    expect(await post({ queries: ['a', 'b', 'c'] }, { maxQueries: 2 })).toMatchObject({
      status: 422,
      body: { detail: 'A request may have at most 2 queries, got 3; send several requests' },
    });
    expect(await post({ queries: ['a'], topk: 11 }, { maxTopk: 10 })).toMatchObject({
      status: 422,
      body: { detail: 'topk must be at most 10, got 11' },
    });
    expect((await post({ queries: ['a', 'b'], topk: 10 }, { maxQueries: 2, maxTopk: 10, maxPassages: 20 })).status).toBe(200);
    expect((await post({ queries: ['a', 'b'], topk: 10 }, { maxPassages: 19 })).status).toBe(422);
    expect((await post({ queries: ['a', 'b'] }, { defaultTopk: 10, maxPassages: 19 })).status).toBe(422);
  });

  it('refuses a body beyond its bound, announced or not (413)', async () => {
    const body = JSON.stringify({ queries: ['x'.repeat(1000)] });
    expect((await post(body, { maxBodyBytes: body.length })).status).toBe(200);
    expect((await post(body, { maxBodyBytes: body.length - 1 })).status).toBe(413);
    const headers = { ...JSON_TYPE, 'content-length': '1001' };
    const announced = await retrievalApp({ retriever: index, maxBodyBytes: 1000 }).request('/retrieve', { method: 'POST', body: '{}', headers });
    expect(announced.status).toBe(413);
  });

  it('asks clients beyond its queue to come back (503), and serves again afterwards', async () => {
    const gate = Promise.withResolvers<void>();
    const app = retrievalApp({ retriever: new WordRetriever(CONTRACT_PASSAGES, () => gate.promise), maxPending: 2 });
    const ask = async () => app.request('/retrieve', { method: 'POST', headers: JSON_TYPE, body: '{"queries": ["mayor"]}' });
    const waiting = [ask(), ask()];
    const refused = await ask();
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await (await app.request('/health')).json()).toMatchObject({ pending: 2 });
    gate.resolve();
    expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([200, 200]);
    expect((await ask()).status).toBe(200);
  });

  it('holds no more bytes than 16 bodies may have (503), and releases them', async () => {
    const gate = Promise.withResolvers<void>();
    const retriever = new WordRetriever(CONTRACT_PASSAGES, () => gate.promise);
    const app = retrievalApp({ retriever, maxBodyBytes: 1000 });
    const ask = async () => app.request('/retrieve', { method: 'POST', headers: JSON_TYPE, body: JSON.stringify({ queries: ['x'.repeat(900)] }) });
    const waiting = Array.from({ length: 20 }, ask);
    const refused = await Promise.any(waiting);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    gate.resolve();
    const statuses = (await Promise.all(waiting)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200).length).toBe(17);
    expect((await ask()).status).toBe(200);
  });

  it.each([
    ['a failing engine', new RetrievalError('[POST] http://x: 500'), 502, '[POST] http://x: 500'],
    ['an engine out of time', new TimeoutError('late'), 504, 'late'],
    ['a fault of our own', new TypeError('secret path /home/me'), 500, 'Internal Server Error'],
  ])('answers %s without internal details, and reports it', async (_, error, status, detail) => {
    const reported: unknown[] = [];
    const retriever = new WordRetriever([], () => {
      throw error;
    });
    const answer = await post({ queries: ['a'] }, { retriever, onFailure: (failure) => reported.push(failure) });
    expect([answer.status, answer.body]).toEqual([status, { detail }]);
    expect(reported).toEqual([error]);
  });

  it('stops waiting for an engine that hangs and ignores its signal', async () => {
    const retriever = new WordRetriever([], () => new Promise(() => {}));
    const answer = await post({ queries: ['a'] }, { retriever, timeoutMs: 20 });
    expect([answer.status, answer.body.detail]).toEqual([504, 'The retriever did not answer within 20 ms']);
    expect(retriever.asked[0]!.signal.aborted).toBe(true);
  });

  it("answers UltraRAG's /search: texts alone, in its names, one query as a text too", async () => {
    const ask = async (body: unknown, options: Options = {}) => {
      const app = retrievalApp({ retriever: index, ...options });
      const response = await app.request('/search', { method: 'POST', headers: JSON_TYPE, body: JSON.stringify(body) });
      return { status: response.status, body: await response.json() };
    };
    const [mayor, river] = CONTRACT_PASSAGES.map(({ contents }) => contents);
    expect(await ask({ query_list: ['river Zumardle', 'xylophone'], top_k: 1 })).toEqual({ status: 200, body: { ret_psg: [[river], []] } });
    expect(await ask({ query_list: 'Purorka', top_k: 1, query_instruction: 'Query: ' })).toEqual({ status: 200, body: { ret_psg: [[mayor]] } });
    expect(await ask({ query_list: ['mayor'] }, { defaultTopk: 1 })).toMatchObject({ status: 200, body: { ret_psg: [[expect.any(String)]] } });
    expect(await ask({ queries: ['mayor'] })).toEqual({ status: 422, body: { detail: 'query_list: expected a list of strings, got nothing' } });
    expect(await ask({ query_list: [1] })).toMatchObject({ status: 422 });
    expect(await ask({ query_list: ['a'], top_k: 1e300 })).toMatchObject({ status: 422 });
    expect(await ask({ query_list: ['a', 'b'], top_k: 1 }, { maxQueries: 1 })).toMatchObject({ status: 422 });
    expect((await retrievalApp({ retriever: index }).request('/search')).status).toBe(405);
  });

  it('knows its routes', async () => {
    const app = retrievalApp({ retriever: index });
    const health = await app.request('/health');
    expect([health.status, await health.json()]).toEqual([200, { status: 'ok', retriever: 'bm25 contract', default_topk: 3, pending: 0 }]);
    const wrongMethod = await app.request('/retrieve');
    expect([wrongMethod.status, wrongMethod.headers.get('allow'), await wrongMethod.json()]).toEqual([405, 'POST', { detail: 'Method Not Allowed' }]);
    const wrongPath = await app.request('/nowhere', { method: 'POST' });
    expect([wrongPath.status, await wrongPath.json()]).toEqual([404, { detail: 'Not Found' }]);
  });

  it('answers 200 or 422 and nothing else to any JSON {any value, or any value under its own keys}', async () => {
    const value = fc.jsonValue({ maxDepth: 4 });
    const likely = fc.record(
      {
        queries: fc.oneof(fc.array(fc.oneof(fc.string({ unit: 'binary' }), value)), value),
        topk: fc.oneof(fc.integer(), value),
        return_scores: value,
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(fc.oneof(value, likely), async (body) => {
        const { status, body: answer } = await post(body);
        expect([200, 422]).toContain(status);
        expect(status === 200 ? Array.isArray(answer.result) : typeof answer.detail).toBe(status === 200 ? true : 'string');
      }),
      { numRuns: 200 },
    );
  });

  it('survives bodies that are not JSON, deep, long or full of NUL', async () => {
    const statuses: number[] = [];
    const deep = '['.repeat(200_000) + ']'.repeat(200_000);
    for (const body of [
      deep,
      `{"queries": ${deep}}`,
      `{"queries": ["a"], "topk": ${deep}}`,
      '\0'.repeat(1000),
      '{"queries":["\\u0000\\ud800"]}',
      '1e999',
      'NaN',
    ])
      statuses.push((await post(body)).status);
    expect(statuses).toEqual([422, 422, 422, 422, 200, 422, 422]);
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        expect((await post(bytes)).status).toBe(422);
      }),
      { numRuns: 100 },
    );
  });
});
