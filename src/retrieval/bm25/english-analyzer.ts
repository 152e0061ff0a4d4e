/** Lucene's EnglishAnalyzer for passages and queries: words without possessive `'s`, lower case, 33 stop words, Porter's stems. */
import { porterStem } from '../../metrics/porter.ts';
import { ENGLISH_STOP_WORDS } from '../../metrics/stop-words.ts';
import { scanWords } from './word-breaks.ts';

/** Recorded in every index. Change it with the rules below, so that old indexes are refused. */
export const ANALYZER = 'lucene-english-1';

/** Two letters that JavaScript lower-cases by context or to two characters, but Java one by one. */
const contextual = /[\u0130\u03a3]/g;

/** The indexed term of a word; null for a stop word. */
export function termOf(word: string): string | null {
  let term = withoutPossessive(word);
  term = term.replace(contextual, (letter) => (letter === '\u0130' ? 'i' : '\u03c3')).toLowerCase();
  return ENGLISH_STOP_WORDS.has(term) ? null : porterStem(term);
}

/** All terms of a string, in order, with repetitions. */
export function analyze(text: string): readonly string[] {
  const terms: string[] = [];
  scanWords(text, {
    word: (word) => {
      const term = termOf(word);
      if (term !== null) terms.push(term);
    },
  });
  return terms;
}

function withoutPossessive(word: string): string {
  const last = word.length - 1;
  if (last < 1 || (word[last] !== 's' && word[last] !== 'S')) return word;
  return /['\u2019\uff07]/.test(word[last - 1]!) ? word.slice(0, last - 1) : word;
}
