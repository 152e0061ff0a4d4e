import { describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { batched } from '../../src/retrieval/batched.ts';
import { cached } from '../../src/retrieval/cached.ts';
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import { HttpRetriever } from '../../src/retrieval/http-retriever.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';
import { until } from '../transport/loopback.ts';
import { serve } from './served.ts';
import { WordRetriever } from './word-retriever.ts';

const signal = new AbortController().signal;
const corpus = Array.from({ length: 30 }, (_, i) => ({ id: `${i}`, contents: `word${i}` }));

describe('cached', () => {
  retrieverContract(
    async () => {
      const server = await serve(await openBm25(CONTRACT_PASSAGES));
      const retriever = cached(batched(new HttpRetriever({ url: server.url })));
      return { retriever, [Symbol.asyncDispose]: () => retriever.close().then(() => server[Symbol.asyncDispose]()) };
    },
    { isIndex: true },
  );

  it('asks once for each query and topk', async () => {
    const inner = new WordRetriever(corpus);
    const retriever = cached(inner);
    await retriever.search(['word1', 'word2', 'word1'], { topk: 1, signal });
    await retriever.search(['word2', 'word3'], { topk: 1, signal });
    await retriever.search(['word2'], { topk: 11, signal });
    expect(await retriever.search(['word3', 'word1'], { topk: 1, signal })).toMatchObject([[{ id: '3' }], [{ id: '1' }]]);
    expect(inner.asked.map(({ queries, topk }) => [topk, ...queries])).toEqual([
      [1, 'word1', 'word2'],
      [1, 'word3'],
      [11, 'word2'],
    ]);
  });

  it('remembers that nothing was found', async () => {
    const inner = new WordRetriever(corpus);
    const retriever = cached(inner);
    expect(await retriever.search(['nothing'], { topk: 1, signal })).toEqual([[]]);
    expect(await retriever.search(['nothing'], { topk: 1, signal })).toEqual([[]]);
    expect(inner.asked.length).toBe(1);
  });

  it('distinguishes queries and topks that would read alike side by side', async () => {
    const inner = new WordRetriever(corpus);
    const retriever = cached(inner);
    await retriever.search(['1 word1'], { topk: 1, signal });
    await retriever.search(['word1'], { topk: 11, signal });
    await retriever.search([' word1'], { topk: 1, signal });
    expect(inner.asked.length).toBe(3);
  });

  it('forgets the least recently used query beyond maxCharacters, and never keeps one that is longer', async () => {
    const inner = new WordRetriever(corpus);
    const retriever = cached(inner, { maxCharacters: 100 });
    const long = `word1 ${'x'.repeat(80)}`;
    const longer = `word1 ${'x'.repeat(100)}`;
    for (const query of ['word1', long, longer, long, longer, 'word1']) await retriever.search([query], { topk: 1, signal });
    expect(inner.asked.flatMap(({ queries }) => queries)).toEqual(['word1', long, longer, longer, 'word1']);
  });

  it('forgets the least recently used query beyond maxEntries', async () => {
    const inner = new WordRetriever(corpus);
    const retriever = cached(inner, { maxEntries: 2 });
    for (const query of ['word1', 'word2', 'word1', 'word3', 'word1', 'word2']) await retriever.search([query], { topk: 1, signal });
    expect(inner.asked.flatMap(({ queries }) => queries)).toEqual(['word1', 'word2', 'word3', 'word2']);
  });

  it('shares one request between concurrent searches that overlap', async () => {
    const gate = Promise.withResolvers<void>();
    const inner = new WordRetriever(corpus, () => gate.promise);
    const retriever = cached(inner);
    const searches = [['word1', 'word2'], ['word2'], ['word2', 'word3', 'word1']].map((queries) => retriever.search(queries, { topk: 1, signal }));
    await until(() => inner.asked.length === 2);
    gate.resolve();
    const ids = (await Promise.all(searches)).map((lists) => lists.map((list) => list[0]!.id));
    expect(ids).toEqual([['1', '2'], ['2'], ['2', '3', '1']]);
    expect(inner.asked.map(({ queries }) => queries)).toEqual([['word1', 'word2'], ['word3']]);
  });

  it('never keeps a failure, and everyone who shared the request gets it', async () => {
    const down = new RetrievalError('down');
    const inner = new WordRetriever(corpus, () => {
      if (inner.asked.length === 1) throw down;
    });
    const retriever = cached(inner);
    const outcomes = await Promise.allSettled([1, 2].map(() => retriever.search(['word1'], { topk: 1, signal })));
    expect(outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason)).toEqual([down, down]);
    expect(await retriever.search(['word1'], { topk: 1, signal })).toMatchObject([[{ id: '1' }]]);
    expect(inner.asked.length).toBe(2);
  });

  it('survives an engine that throws before it returns a promise', async () => {
    const inner = new WordRetriever(corpus);
    inner.search = () => {
      throw new RetrievalError('at once');
    };
    const retriever = cached(inner);
    for (const _ of [1, 2]) await expect(retriever.search(['word1'], { topk: 1, signal })).rejects.toThrow('at once');
  });

  it('keeps the shared request going when one caller aborts', async () => {
    const gate = Promise.withResolvers<void>();
    const inner = new WordRetriever(corpus, () => gate.promise);
    const retriever = cached(inner);
    const controller = new AbortController();
    const leaving = retriever.search(['word1'], { topk: 1, signal: controller.signal });
    const staying = retriever.search(['word1'], { topk: 1, signal });
    await until(() => inner.asked.length === 1);
    controller.abort();
    await expect(leaving).rejects.toThrow(CancelledError);
    gate.resolve();
    expect(await staying).toMatchObject([[{ id: '1' }]]);
    expect(inner.asked.map((asked) => asked.signal.aborted)).toEqual([false]);
  });

  it('aborts the request when all callers have left, and starts a new one for the next callers', async () => {
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const inner = new WordRetriever(corpus, () => gates[inner.asked.length - 1]!.promise);
    const retriever = cached(inner);
    const controllers = [new AbortController(), new AbortController()];
    const left = controllers.map((controller) => retriever.search(['word1'], { topk: 1, signal: controller.signal }));
    await until(() => inner.asked.length === 1);
    for (const controller of controllers) controller.abort();
    const next = retriever.search(['word1'], { topk: 1, signal });
    expect((await Promise.allSettled(left)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    gates[0]!.reject(new RetrievalError('the abandoned request ends late'));
    await until(() => inner.asked.length === 2);
    const joining = retriever.search(['word1'], { topk: 1, signal });
    gates[1]!.resolve();
    expect(await Promise.all([next, joining])).toMatchObject([[[{ id: '1' }]], [[{ id: '1' }]]]);
    expect(inner.asked.map((asked) => asked.signal.aborted)).toEqual([true, false]);
  });

  it.each([0, -1, 1.5, NaN])('refuses room for %d entries', (maxEntries) => {
    expect(() => cached(new WordRetriever([]), { maxEntries })).toThrow(ConfigError);
  });
});
