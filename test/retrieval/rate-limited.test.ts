import { describe, expect, it } from 'vitest';
import { CancelledError, ConfigError, RetrievalError } from '../../src/core/errors.ts';
import { rateLimited } from '../../src/retrieval/rate-limited.ts';
import { CONTRACT_PASSAGES, retrieverContract } from '../contracts/retriever.ts';
import { WordRetriever } from './word-retriever.ts';

const signal = new AbortController().signal;

describe('rateLimited', () => {
  retrieverContract(
    async () => {
      const retriever = rateLimited(new WordRetriever(CONTRACT_PASSAGES), { perSecond: 5000 });
      return { retriever, [Symbol.asyncDispose]: () => retriever.close() };
    },
    { isIndex: false },
  );

  it('starts searches in order, none before its turn', async () => {
    const starts: number[] = [];
    const words = new WordRetriever(CONTRACT_PASSAGES, () => starts.push(performance.now()));
    const retriever = rateLimited(words, { perSecond: 100 });
    await retriever.search(['a', 'b', 'c', 'd'], { topk: 1, signal });
    expect(words.asked.map(({ queries }) => queries)).toEqual([['a'], ['b'], ['c'], ['d']]);
    // Timers may fire a millisecond early.
    for (const [i, start] of starts.entries()) expect(start - starts[0]!).toBeGreaterThan(10 * i - 3);
  });

  it('refuses a search beyond the queue at once, retryable, and serves those that wait', async () => {
    const retriever = rateLimited(new WordRetriever(CONTRACT_PASSAGES), { perSecond: 200, maxQueued: 2 });
    const ask = () => retriever.search(['mayor'], { topk: 1, signal });
    const waiting = [ask(), ask(), ask()];
    const refused = await ask().catch((error: unknown) => error as RetrievalError);
    expect(refused).toBeInstanceOf(RetrievalError);
    expect(refused).toMatchObject({ retryable: true, message: expect.stringMatching(/^2 searches already wait/) });
    expect((await Promise.all(waiting)).flat()).toHaveLength(3);
    await expect(ask()).resolves.toHaveLength(1);
  });

  it('frees the place of a search that is cancelled while it waits', async () => {
    const retriever = rateLimited(new WordRetriever(CONTRACT_PASSAGES), { perSecond: 1e-3, maxQueued: 1 });
    await retriever.search(['first'], { topk: 1, signal });
    const controller = new AbortController();
    const waiting = retriever.search(['second'], { topk: 1, signal: controller.signal });
    controller.abort();
    await expect(waiting).rejects.toBeInstanceOf(CancelledError);
    const next = new AbortController();
    const again = retriever.search(['third'], { topk: 1, signal: next.signal });
    next.abort();
    await expect(again).rejects.toBeInstanceOf(CancelledError);
  });

  it.each([
    [{ perSecond: 0 }, /above 0/],
    [{ perSecond: NaN }, /above 0/],
    [{ perSecond: 1, maxQueued: -1 }, /maxQueued/],
  ])('refuses %j', (options, message) => {
    expect(() => rateLimited(new WordRetriever([]), options)).toThrow(ConfigError);
    expect(() => rateLimited(new WordRetriever([]), options)).toThrow(message);
  });
});
