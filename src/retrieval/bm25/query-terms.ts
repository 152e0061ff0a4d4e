import type { Vocabulary } from './vocabulary.ts';
import { scanWords } from './word-breaks.ts';

/** The distinct terms of a query that occur in the corpus, in order, with their counts in the query. */
export interface QueryTerms {
  readonly ids: readonly number[];
  readonly counts: readonly number[];
}

export function parseQuery(query: string, vocabulary: Vocabulary): QueryTerms {
  const counts = new Map<number, number>();
  scanWords(query, {
    word: (word) => {
      const id = vocabulary.idOf(word);
      if (id >= 0) counts.set(id, (counts.get(id) ?? 0) + 1);
    },
  });
  return { ids: [...counts.keys()], counts: [...counts.values()] };
}
