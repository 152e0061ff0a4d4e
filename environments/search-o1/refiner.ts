/** The builtin refiner: picks the sentences that share most words with the query. It needs no model, is deterministic, and linear in the pages. */
import { scriptedModel } from 'vf-search';
import type { Model, ModelRequest } from 'vf-search/environment-kit';
import { ENGLISH_STOP_WORDS } from 'vf-search/metrics/stop-words';
import { NOTHING_FOUND } from './extract.ts';
import type { WebPage } from './web-pages.ts';

/** The data that a refiner in this process gets in addition to the prompt. */
export interface RefinementData {
  readonly query: string;
  readonly pages: readonly WebPage[];
}

const MOST_SENTENCES = 3;
/** The least share of the best score: a sentence below it shares little more than the title. */
const LEAST_SHARE = 0.5;
const SENTENCE_BREAK = /(?<=[.!?])\s+/;
const WORD = /[\p{L}\p{N}]+/gu;

interface Scored {
  readonly sentence: string;
  readonly score: number;
  /** Its place among all sentences. */
  readonly place: number;
}

/**
 * The sentences of the pages that answer a query best, in the order of the text; null if none has a word of it. A sentence's score is the number of distinct
 * words of the query, without stop words, that it or its page's title has, divided by the square root of the page's rank. Kept are the best three, those of them that
 * score more than half as much as the first.
 */
export function helpfulSentences({ query, pages }: RefinementData): string | null {
  const wanted = new Set(wordsOf(query).filter((word) => !ENGLISH_STOP_WORDS.has(word)));
  const best: Scored[] = [];
  let place = 0;
  for (const [i, { title, text }] of pages.entries()) {
    const inTitle = new Set(wordsOf(title).filter((word) => wanted.has(word)));
    for (const sentence of text.split(SENTENCE_BREAK)) {
      const added = new Set(wordsOf(sentence).filter((word) => wanted.has(word) && !inTitle.has(word)));
      if (sentence !== '') insert(best, { sentence, score: (inTitle.size + added.size) / Math.sqrt(i + 1), place: place++ });
    }
  }
  const first = best[0]?.score ?? 0;
  if (first === 0) return null;
  const kept = best.filter(({ score }) => score > first * LEAST_SHARE).toSorted((a, b) => a.place - b.place);
  return kept.map(({ sentence }) => sentence).join(' ');
}

/** Keeps the best few, best first; of equals, the first ones in the text. */
function insert(best: Scored[], scored: Scored): void {
  const at = best.findIndex(({ score }) => score < scored.score);
  if (at === -1 && best.length === MOST_SENTENCES) return;
  best.splice(at === -1 ? best.length : at, 0, scored);
  best.length = Math.min(best.length, MOST_SENTENCES);
}

function wordsOf(text: string): string[] {
  return text.toLowerCase().match(WORD) ?? [];
}

/** One object for every environment, so that several of them can be members of an EnvGroup. */
export const SENTENCE_REFINER: Model = scriptedModel({
  name: 'sentences-by-query',
  replies: (_, { data }: ModelRequest) => {
    if (!isRefinementData(data)) throw new TypeError('The builtin refiner needs the query and the pages of a SearchO1Env, but the request has none.');
    return `\n**Final Information**\n\n${helpfulSentences(data) ?? NOTHING_FOUND}`;
  },
});

function isRefinementData(data: unknown): data is RefinementData {
  return typeof data === 'object' && data !== null && 'query' in data && 'pages' in data;
}
