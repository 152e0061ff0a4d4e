/** The part of a page around the sentence that fits a snippet best (scripts/bing_search.py). Lengths are in code points, as Python counts them. */
import { ASCII_PUNCTUATION, splitWords } from 'vf-search/metrics/python-text';

/** Upstream looks for the sentence only in the beginning of a page. */
const SEARCHED_LENGTH = 50_000;
/** A sentence fits if the F1 of its words and the snippet's is above this. */
const LEAST_F1 = 0.2;
const PUNCTUATION = new RegExp(`[${ASCII_PUNCTUATION}]`, 'g');
const SENTENCE_BREAK = /(?<=[.!?]) +/;

/**
 * The sentence whose words fit the snippet best, with `length` characters on either side; the first `2 * length` characters of the page if none fits.
 * Sentences end at `.`, `!` or `?` before a space.
 */
export function snippetContext(text: string, snippet: string, length: number): string {
  const searched = text.slice(0, forward(text, 0, SEARCHED_LENGTH));
  const sentence = bestSentence(searched, snippet);
  if (sentence === null) return text.slice(0, forward(text, 0, 2 * length));
  const start = searched.indexOf(sentence);
  return searched.slice(backward(searched, start, length), forward(searched, start + sentence.length, length));
}

function bestSentence(text: string, snippet: string): string | null {
  const wanted = wordsOf(snippet);
  let best: string | null = null;
  let bestF1 = LEAST_F1;
  if (wanted.size === 0) return null;
  for (const sentence of text.split(SENTENCE_BREAK)) {
    const f1 = f1Of(wanted, wordsOf(sentence));
    if (f1 > bestF1) [best, bestF1] = [sentence, f1];
  }
  return best;
}

function f1Of(wanted: ReadonlySet<string>, given: ReadonlySet<string>): number {
  let common = 0;
  for (const word of given) if (wanted.has(word)) common++;
  if (common === 0) return 0;
  const [precision, recall] = [common / given.size, common / wanted.size];
  return (2 * (precision * recall)) / (precision + recall);
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(splitWords(text.toLowerCase().replace(PUNCTUATION, '')));
}

/** The index `count` code points behind `from`, at most the end. */
function forward(text: string, from: number, count: number): number {
  let at = from;
  for (let left = count; left > 0 && at < text.length; left--) at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  return at;
}

/** The index `count` code points before `from`, at least 0. */
function backward(text: string, from: number, count: number): number {
  let at = from;
  for (let left = count; left > 0 && at > 0; left--) at -= at > 1 && text.codePointAt(at - 2)! > 0xffff ? 2 : 1;
  return at;
}
