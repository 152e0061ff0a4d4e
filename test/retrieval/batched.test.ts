import fc from 'fast-check';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { batched } from '../../src/retrieval/batched.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import { HttpRetriever } from '../../src/retrieval/http-retriever.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';
import { until } from '../transport/loopback.ts';
import { serve } from './served.ts';
import { WordRetriever } from './word-retriever.ts';

const signal = new AbortController().signal;
const corpus = Array.from({ length: 30 }, (_, i) => ({ id: `${i}`, contents: `word${i}` }));

describe('batched', () => {
  retrieverContract(
    async () => {
      const server = await serve(await openBm25(CONTRACT_PASSAGES));
      const retriever = batched(new HttpRetriever({ url: server.url }));
      return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
    },
    { isIndex: true },
  );

  it('sends concurrent searches as one request per topk', async () => {
    const inner = new WordRetriever(corpus);
    const retriever = batched(inner);
    const answers = await Promise.all(corpus.map(({ contents }, i) => retriever.search([contents], { topk: 1 + (i % 2), signal })));
    expect(inner.asked.map(({ topk, queries }) => [topk, queries.length])).toEqual([
      [1, 15],
      [2, 15],
    ]);
    expect(answers.map(([list]) => list!.map((passage) => passage.id))).toEqual(corpus.map(({ id }) => [id]));
  });

  it('never sends more than maxBatch queries, unless one search holds more', async () => {
    const inner = new WordRetriever(corpus);
    const retriever = batched(inner, { maxBatch: 4, maxDelayMs: 0 });
    const sizes = [1, 2, 3, 9, 1, 1, 1, 1, 1];
    const answers = await Promise.all(sizes.map((size) => retriever.search(Array<string>(size).fill('word3'), { topk: 1, signal })));
    expect(inner.asked.map(({ queries }) => queries.length)).toEqual([3, 3, 9, 4, 1]);
    expect(answers.map((lists) => lists.length)).toEqual(sizes);
  });

  it('waits for a full request where maxDelayMs is longer than a timer can be', async () => {
    const inner = new WordRetriever(corpus);
    const retriever = batched(inner, { maxBatch: 2, maxDelayMs: Infinity });
    const first = retriever.search(['word1'], { topk: 1, signal });
    await sleep(5);
    await Promise.all([first, retriever.search(['word2'], { topk: 1, signal })]);
    expect(inner.asked.map(({ queries }) => queries.length)).toEqual([2]);
  });

  it('gives every caller what it would have got alone {any searches, any sizes}', async () => {
    const query = fc.nat(29).map((i) => `word${i} word${(i * 7) % 30}`);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ queries: fc.array(query, { maxLength: 5 }), topk: fc.integer({ min: 1, max: 3 }) }), { maxLength: 12 }),
        fc.integer({ min: 1, max: 8 }),
        async (searches, maxBatch) => {
          const alone = new WordRetriever(corpus);
          const retriever = batched(new WordRetriever(corpus), { maxBatch, maxDelayMs: 0 });
          const answers = await Promise.all(searches.map(({ queries, topk }) => retriever.search(queries, { topk, signal })));
          expect(answers).toEqual(await Promise.all(searches.map(({ queries, topk }) => alone.search(queries, { topk, signal }))));
        },
      ),
      { numRuns: 60 },
    );
  });

  it('fails every caller of a failed request with the same error, and no later caller', async () => {
    const down = new RetrievalError('down');
    const inner = new WordRetriever(corpus, () => {
      if (inner.asked.length === 1) throw down;
    });
    const retriever = batched(inner);
    const outcomes = await Promise.allSettled(['word1', 'word2'].map((query) => retriever.search([query], { topk: 1, signal })));
    expect(outcomes).toEqual([
      { status: 'rejected', reason: down },
      { status: 'rejected', reason: down },
    ]);
    expect(await retriever.search(['word1'], { topk: 1, signal })).toMatchObject([[{ id: '1' }]]);
  });

  it('leaves the other callers alone when one aborts before or after the request is sent', async () => {
    for (const sent of [false, true]) {
      const gate = Promise.withResolvers<void>();
      const inner = new WordRetriever(corpus, () => gate.promise);
      const retriever = batched(inner);
      const controller = new AbortController();
      const leaving = retriever.search(['word1', 'word9'], { topk: 1, signal: controller.signal });
      const staying = retriever.search(['word2'], { topk: 1, signal });
      if (sent) await until(() => inner.asked.length === 1);
      controller.abort();
      await expect(leaving).rejects.toThrow(CancelledError);
      gate.resolve();
      expect(await staying).toMatchObject([[{ id: '2' }]]);
      expect(inner.asked.map(({ queries }) => queries)).toEqual([sent ? ['word1', 'word9', 'word2'] : ['word2']]);
    }
  });

  it('aborts the request when all callers have left, and sends none if they left before', async () => {
    for (const sent of [false, true]) {
      const inner = new WordRetriever(corpus, () => new Promise(() => {}));
      const retriever = batched(inner, { maxDelayMs: 0 });
      const controllers = [new AbortController(), new AbortController()];
      const searches = controllers.map((controller) => retriever.search(['word1'], { topk: 1, signal: controller.signal }));
      if (sent) await until(() => inner.asked.length === 1);
      for (const controller of controllers) controller.abort();
      expect((await Promise.allSettled(searches)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      const next = new AbortController();
      const later = retriever.search(['word3'], { topk: 1, signal: next.signal });
      await until(() => inner.asked.at(-1)?.queries[0] === 'word3');
      expect(inner.asked.map((asked) => [asked.queries[0], asked.signal.aborted])).toEqual([...(sent ? [['word1', true]] : []), ['word3', false]]);
      next.abort();
      await expect(later).rejects.toThrow(CancelledError);
    }
  });

  it('ends searches that are not sent yet when it is closed', async () => {
    const inner = new WordRetriever(corpus);
    const retriever = batched(inner, { maxDelayMs: 60_000 });
    const search = retriever.search(['word1'], { topk: 1, signal });
    await retriever.close();
    await expect(search).rejects.toThrow(CancelledError);
    expect([inner.asked.length, inner.closed]).toEqual([0, 1]);
  });

  it.each([{ maxBatch: 0 }, { maxBatch: NaN }, { maxDelayMs: -1 }, { maxDelayMs: NaN }])('refuses %j', (options) => {
    expect(() => batched(new WordRetriever([]), options)).toThrow(ConfigError);
  });
});
