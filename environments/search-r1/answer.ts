/** Answer matching (verl/utils/reward_score/qa_em.py). */
import { normalizeAnswer } from 'vf-search/metrics/normalize-answer';

export { normalizeAnswer };

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
