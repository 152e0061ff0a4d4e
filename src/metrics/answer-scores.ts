/** Search-o1's scores of one short answer (scripts/evaluate.py). */
import { normalizeAnswer } from './normalize-answer.ts';
import { splitWords } from './python-text.ts';
import { commonWords } from './word-overlap.ts';

export interface AnswerScores {
  /** 1 if a golden answer occurs in the prediction, else 0. */
  readonly acc: 0 | 1;
  /** 1 if the prediction equals a golden answer, else 0. */
  readonly em: 0 | 1;
  /** The best F1 of words, in [0, 1]. */
  readonly f1: number;
}

/**
 * The best of each score over all golden answers, both normalised as in SQuAD. A golden answer that has no word in common counts for nothing, even if both are
 * empty.
 */
export function answerScores(prediction: string, goldenAnswers: readonly string[]): AnswerScores {
  return bestScores(prediction, goldenAnswers, normalizeAnswer);
}

/** The scores for the letter of a choice, of which only case and spaces are normalised. */
export function choiceScores(prediction: string, golden: string): AnswerScores {
  return bestScores(prediction, [golden], (text) => splitWords(text.toLowerCase()).join(' '));
}

function bestScores(prediction: string, goldenAnswers: readonly string[], normalize: (text: string) => string): AnswerScores {
  const own = normalize(prediction);
  const words = splitWords(own);
  let [acc, em, f1]: [0 | 1, 0 | 1, number] = [0, 0, 0];
  for (const answer of goldenAnswers) {
    const golden = normalize(answer);
    const goldenWords = splitWords(golden);
    const same = commonWords(words, goldenWords);
    if (same === 0) continue;
    if (own.includes(golden)) acc = 1;
    if (own === golden) em = 1;
    const [precision, recall] = [same / words.length, same / goldenWords.length];
    f1 = Math.max(f1, (2 * precision * recall) / (precision + recall));
  }
  return { acc, em, f1 };
}
