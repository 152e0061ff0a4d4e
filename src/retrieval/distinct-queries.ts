import type { Passage } from './retriever.ts';

/** The lists of all queries, each distinct one asked once, in well-formed Unicode. A blank query has no hits and is not asked. */
export async function forDistinctQueries(
  queries: readonly string[],
  ask: (distinct: readonly string[]) => Promise<readonly (readonly Passage[])[]>,
): Promise<readonly (readonly Passage[])[]> {
  const texts = queries.map((query) => query.toWellFormed());
  const distinct = [...new Set(texts)].filter((text) => text.trim() !== '');
  const lists = distinct.length === 0 ? [] : await ask(distinct);
  const found = new Map(distinct.map((text, i) => [text, lists[i]!]));
  return texts.map((text) => found.get(text) ?? []);
}
