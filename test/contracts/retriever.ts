/** The contract of every Retriever. Run over the index, the HTTP client, the web engine and the decorators. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CancelledError } from '../../src/core/errors.ts';
import type { Passage, Retriever } from '../../src/retrieval/retriever.ts';

export const CONTRACT_PASSAGES: readonly Passage[] = [
  { id: '0', contents: '"Kinzer"\nThe mayor of Kinzer is Purorka.' },
  { id: '1', contents: '"Kinzer"\nThe river of Kinzer is Zumardle.' },
  { id: '2', contents: '"Gelvet"\nThe mayor of Gelvet is Tiborn, and the mayor before was Lisk.' },
  { id: '3', contents: '"Gelvet"\nThe main export of Gelvet is rice.' },
  { id: '4', contents: '"Zürich"\nZürich lies on a lake; 苏黎世.' },
];

export interface OpenedRetriever extends AsyncDisposable {
  readonly retriever: Retriever;
}

export interface RetrieverTraits {
  /** False for web engines: passages without ids and scores, and more of them than `topk`. */
  readonly isIndex: boolean;
  /** True where a passage is a page: its id is its name, and no text comes with it. @default false */
  readonly findsPages?: boolean;
  /** True where every passage is near every query to some degree, so that a query that is not blank always has hits. @default false */
  readonly isDense?: boolean;
}

/** `open` gives a retriever over CONTRACT_PASSAGES. */
export function retrieverContract(open: () => Promise<OpenedRetriever>, { isIndex, findsPages = false, isDense = false }: RetrieverTraits): void {
  const seen = (passage: Passage | undefined) => (findsPages ? passage?.id : passage?.contents);
  describe('contract', () => {
    const signal = new AbortController().signal;
    let opened: OpenedRetriever;
    let retriever: Retriever;
    beforeAll(async () => {
      opened = await open();
      retriever = opened.retriever;
    });
    afterAll(() => opened[Symbol.asyncDispose]());

    it('gives one list per query, in order', async () => {
      const lists = await retriever.search(['river Zumardle', 'export rice', 'mayor Purorka'], { topk: 1, signal });
      expect(lists.map((list) => seen(list[0]))).toEqual([CONTRACT_PASSAGES[1], CONTRACT_PASSAGES[3], CONTRACT_PASSAGES[0]].map(seen));
    });

    it('gives no list for no query', async () => {
      expect(await retriever.search([], { topk: 3, signal })).toEqual([]);
    });

    it('gives an empty list where nothing matches', async () => {
      const [unknown, known, blank] = await retriever.search(['xylophone', 'mayor Purorka', ''], { topk: 2, signal });
      expect([unknown!.length, known!.length, blank!.length]).toEqual([isDense ? 2 : 0, expect.any(Number), 0]);
    });

    it('gives equal lists for equal queries, within a search and across searches', async () => {
      const [a, b] = await retriever.search(['mayor of Gelvet', 'mayor of Gelvet'], { topk: 3, signal });
      const [c] = await retriever.search(['mayor of Gelvet'], { topk: 3, signal });
      expect(a!.length).toBeGreaterThan(0);
      expect([b, c]).toEqual([a, a]);
    });

    it('keeps contents whole, beyond ASCII too', async () => {
      const [list] = await retriever.search(['lake'], { topk: 1, signal });
      expect(list!.map(seen)).toEqual([seen(CONTRACT_PASSAGES[4])]);
    });

    const itOfAnIndex = isIndex ? it : () => {};
    itOfAnIndex('gives at most topk passages, best first, with ids and falling scores', async () => {
      for (const topk of [1, 2, 10]) {
        const [list] = await retriever.search(['mayor of Gelvet'], { topk, signal });
        expect(list!.length).toBeLessThanOrEqual(topk);
        expect(list![0]!.id).toBe('2');
        const scores = list!.map((passage) => passage.score!);
        expect(scores).toEqual(scores.toSorted((a, b) => b - a));
        expect(scores.every(Number.isFinite)).toBe(true);
      }
    });

    it('gives each of many concurrent searches its own lists', async () => {
      const asked = Array.from(
        { length: 40 },
        (_, i) => [['river Zumardle', 'export rice'], ['mayor Purorka'], ['lake', 'xylophone', 'river Zumardle']][i % 3]!,
      );
      const answers = await Promise.all(asked.map((queries, i) => retriever.search(queries, { topk: 1 + (i % 2), signal })));
      for (const [i, queries] of asked.entries()) expect(answers[i]).toEqual(await retriever.search(queries, { topk: 1 + (i % 2), signal }));
    });

    it('answers hostile queries like any other', async () => {
      const hostile = ['\u0000mayor\u0000', 'lake \ud800', '$& $1 \\', '"; DROP TABLE', 'mayor '.repeat(5000), '\u202e\u001b[31m', '{"$ne": null}'];
      const lists = await retriever.search(hostile, { topk: 3, signal });
      expect(lists.length).toBe(hostile.length);
      expect(lists.every(Array.isArray)).toBe(true);
    });

    it('rejects with CancelledError when the signal has aborted', async () => {
      await expect(retriever.search(['mayor of Kinzer'], { topk: 3, signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
    });

    it('closes twice without complaint', async () => {
      const { retriever: another } = await open();
      await expect(another.close().then(() => another.close())).resolves.toBeUndefined();
    });
  });
}
