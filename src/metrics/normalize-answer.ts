/** The two normalisations of answers in question answering: SQuAD's, which Search-R1 and Search-o1 use, and UltraRAG's. */
import { ASCII_PUNCTUATION, replaceArticles, splitWords } from './python-text.ts';

const PUNCTUATION = new RegExp(`[${ASCII_PUNCTUATION}]`, 'g');
/** UltraRAG's set has single quotes and accents too, but not the double quotes of typesetters. */
const PUNCTUATION_AND_QUOTES = new RegExp(`[${ASCII_PUNCTUATION}‘’´]`, 'g');

/**
 * SQuAD's: lower-cases, removes ASCII punctuation, then articles, then extra whitespace; hence "the-cat" becomes "thecat". No Unicode normalisation.
 * @example normalizeAnswer('The Eiffel-Tower!') // 'eiffeltower'
 */
export function normalizeAnswer(answer: string): string {
  return splitWords(replaceArticles(answer.toLowerCase().replace(PUNCTUATION, ''))).join(' ');
}

/**
 * UltraRAG's (servers/evaluation): "True" and "False" alone become "yes" and "no"; punctuation becomes a space instead of nothing, so that "the-cat" becomes
 * "cat".
 * @example normalizeText('The Eiffel-Tower!') // 'eiffel tower'
 */
export function normalizeText(text: string): string {
  const plain = text === 'True' ? 'yes' : text === 'False' ? 'no' : text.toLowerCase();
  return splitWords(replaceArticles(plain.replace(PUNCTUATION_AND_QUOTES, ' '))).join(' ');
}
