import { describe, expect, it } from 'vitest';
import { openRetriever, type Passage } from 'vf-search';
import { ArrangedPassages } from '../../../scripts/real-model/arranged-passages.ts';

const { signal } = new AbortController();
const QUERY = 'tower city';
const golden = new Map([
  [QUERY, ['Rome']],
  ['sea', ['nowhere']],
]);
// BM25 ranks the shorter text first.
const passages: Passage[] = Array.from({ length: 12 }, (_, i) => ({
  id: String(i),
  contents: `"Title ${i}"\nA tower of the city. ${i === 4 || i === 6 ? 'It stands in Rome.' : 'It is old, very old.'}${' And so on.'.repeat(i)}`,
}));

async function arranged(seed: number, query = QUERY, topk = 3): Promise<readonly string[]> {
  const retriever = new ArrangedPassages({ retriever: await openRetriever({ passages }), golden, seed });
  const [found] = await retriever.search([query], { topk, signal });
  await retriever.close();
  return found!.map(({ id }) => id!);
}

describe('ArrangedPassages', () => {
  it('shows one or more passages with the answer among others, each once, in every place and with every seed', async () => {
    const lists = await Promise.all(Array.from({ length: 40 }, async (_, seed) => await arranged(seed)));
    for (const ids of lists) {
      expect(new Set(ids).size).toBe(3);
      expect(ids.some((id) => id === '4' || id === '6')).toBe(true);
    }
    const places = new Set(lists.map((ids) => ids.findIndex((id) => id === '4' || id === '6')));
    expect(places).toEqual(new Set([0, 1, 2]));
    expect(new Set(lists.flat()).size).toBeGreaterThan(6);
  });

  it('gives a query the same passages for the same seed', async () => {
    expect(await arranged(7)).toEqual(await arranged(7));
  });

  it('leaves the retriever’s order where no passage holds the answer, and for queries that it does not know', async () => {
    const retriever = await openRetriever({ passages });
    for (const query of ['sea', 'city tower']) {
      const [plain] = await retriever.search([query], { topk: 3, signal });
      expect(await arranged(1, query)).toEqual(plain!.map(({ id }) => id));
    }
    await retriever.close();
  });
});
