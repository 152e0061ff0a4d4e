/** Measures how well the shown pages match the golden pages. */
import { documentOf } from 'vf-search/metrics/document-of';

/**
 * Normalised discounted cumulative gain: 1 for every golden page among the retrieved ones, divided by log2 of its rank plus 1, over the sum of the ideal order.
 * A page that is retrieved twice counts twice, as in upstream, so the value can exceed 1; the environment never shows a page twice.
 * @param retrieved names of pages, in the order in which they were shown
 * @param options `level`: `document` compares the documents instead, the names without their last `_{page}`, each once. @default 'page'
 * @returns 0 without golden pages
 */
export function ndcg(
  retrieved: readonly string[],
  gold: readonly string[],
  { level = 'page' }: { readonly level?: 'page' | 'document' } = {},
): number {
  if (level === 'document') return ndcg(documents(retrieved), documents(gold));
  const golden = new Set(gold);
  const ideal = gain(gold.map(() => true));
  return ideal === 0 ? 0 : gain(retrieved.map((page) => golden.has(page))) / ideal;
}

/** The documents of the pages, each once, in order. */
function documents(pages: readonly string[]): string[] {
  return [...new Set(pages.map(documentOf))];
}

function gain(relevant: readonly boolean[]): number {
  return relevant.reduce((sum, isRelevant, i) => (isRelevant ? sum + 1 / Math.log2(i + 2) : sum), 0);
}
