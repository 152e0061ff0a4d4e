/** Answer matching (verl/utils/reward_score/qa_em.py). */
import { splitWords } from './python-text.ts';

/** Python's `string.punctuation`, 32 characters. */
const PUNCTUATION = /[!-/:-@[-`{-~]/g;
/** `\b(a|an|the)\b` with Python's word characters: letters, numbers and underscore, but no combining marks. */
const ARTICLE = /(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu;

/** Lower-cases, then removes ASCII punctuation, then articles, then extra spaces; hence "the-cat" becomes "thecat". No Unicode normalisation. */
export function normalizeAnswer(answer: string): string {
  return splitWords(answer.toLowerCase().replace(PUNCTUATION, '').replace(ARTICLE, ' ')).join(' ');
}

/** 1 if the prediction equals a golden answer after normalisation, else 0. */
export function emCheck(prediction: string, goldenAnswers: readonly string[] | string): 0 | 1 {
  const normalized = normalizeAnswer(prediction);
  return toList(goldenAnswers).some((golden) => normalizeAnswer(golden) === normalized) ? 1 : 0;
}

/** 1 if the normalised prediction contains a normalised golden answer, else 0. Every string contains "". */
export function subemCheck(prediction: string, goldenAnswers: readonly string[] | string): 0 | 1 {
  const normalized = normalizeAnswer(prediction);
  return toList(goldenAnswers).some((golden) => normalized.includes(normalizeAnswer(golden))) ? 1 : 0;
}

function toList(goldenAnswers: readonly string[] | string): readonly string[] {
  return typeof goldenAnswers === 'string' ? [goldenAnswers] : goldenAnswers;
}
