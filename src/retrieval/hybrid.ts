/**
 * Reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): a passage's score is the sum of 1 / (60 + its rank) over the engines that found it. The scores
 * of BM25 and of vectors have no common scale, but their ranks do.
 */
import type { Passage, Retriever } from './retriever.ts';

export interface FusionOptions {
  /** Name in results. */
  readonly name: string;
  /** Damps the first ranks. @default 60, as in the paper */
  readonly k?: number;
  /** Passages of each engine that take part; at least `topk`. @default 100 */
  readonly depth?: number;
}

/** Searches all engines at once. Passages are the same if their ids are; without ids, if their contents are. Closes the engines with it. */
export function fused(retrievers: readonly Retriever[], { name, k = 60, depth = 100 }: FusionOptions): Retriever {
  return {
    name,
    async search(queries, { topk, signal }) {
      const found = await Promise.all(retrievers.map((retriever) => retriever.search(queries, { topk: Math.max(topk, depth), signal })));
      return queries.map((_, q) =>
        fuseRanks(
          found.map((lists) => lists[q]!),
          k,
        ).slice(0, topk),
      );
    },
    close: async () => void (await Promise.all(retrievers.map((retriever) => retriever.close()))),
  };
}

/**
 * Equal scores keep the order in which the passages were first seen, the first engine's first. If an engine names a passage several times, its best rank counts. An id
 * that one engine gives to several texts does not name a passage, so such passages are known by their texts.
 */
function fuseRanks(lists: readonly (readonly Passage[])[], k: number): Passage[] {
  const scores = new Map<string, { readonly passage: Passage; score: number }>();
  const ambiguous = new Set(lists.flatMap(ambiguousIds));
  for (const list of lists) {
    const ranked = new Set<string>();
    for (const [i, passage] of list.entries()) {
      const key = passage.id === undefined || ambiguous.has(passage.id) ? `contents ${passage.contents}` : `id ${passage.id}`;
      if (ranked.has(key)) continue;
      ranked.add(key);
      const known = scores.get(key) ?? { passage, score: 0 };
      known.score += 1 / (k + i + 1);
      scores.set(key, known);
    }
  }
  return [...scores.values()].toSorted((a, b) => b.score - a.score).map(({ passage, score }) => ({ ...passage, score }));
}

function ambiguousIds(list: readonly Passage[]): string[] {
  const contents = new Map(list.map((passage) => [passage.id, passage.contents]));
  return list.flatMap(({ id, contents: own }) => (id !== undefined && contents.get(id) !== own ? [id] : []));
}
