/** Answer matching (verl/utils/reward_score/qa_em.py). */
import { splitWords } from './python-text.ts';

/** Python's `string.punctuation`, 32 characters. */
const PUNCTUATION = /[!-/:-@[-`{-~]/g;
/** `\b(a|an|the)\b`, where a word character is Python's: letters, numbers, underscore, but no combining marks. */
const ARTICLE = /(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu;

/** Lower case, no ASCII punctuation, no whole-word article, single spaces; in that order, so "the-cat" becomes "thecat". No Unicode normalisation. */
export function normalizeAnswer(answer: string): string {
  return splitWords(answer.toLowerCase().replace(PUNCTUATION, '').replace(ARTICLE, ' ')).join(' ');
}

/** 1 when the prediction equals a golden answer after normalisation, else 0. */
export function emCheck(prediction: string, goldenAnswers: readonly string[] | string): 0 | 1 {
  const normalized = normalizeAnswer(prediction);
  return toList(goldenAnswers).some((golden) => normalizeAnswer(golden) === normalized) ? 1 : 0;
}

/** 1 when the normalised prediction contains a normalised golden answer, else 0; "" is contained in everything. */
export function subemCheck(prediction: string, goldenAnswers: readonly string[] | string): 0 | 1 {
  const normalized = normalizeAnswer(prediction);
  return toList(goldenAnswers).some((golden) => normalized.includes(normalizeAnswer(golden))) ? 1 : 0;
}

function toList(goldenAnswers: readonly string[] | string): readonly string[] {
  return typeof goldenAnswers === 'string' ? [goldenAnswers] : goldenAnswers;
}
