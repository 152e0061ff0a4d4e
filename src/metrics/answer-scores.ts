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
  const own = normalizeAnswer(prediction);
  let best: AnswerScores = { acc: 0, em: 0, f1: 0 };
  for (const answer of goldenAnswers) {
    const { acc, em, f1 } = textScores(own, normalizeAnswer(answer));
    if (f1 > 0) best = { acc: acc || best.acc, em: em || best.em, f1: Math.max(f1, best.f1) };
  }
  return best;
}

/**
 * The scores for the letter of a choice or a mathematical answer, of which only case and spaces are normalised. `acc` and `em` compare the texts as they are: `x=5`
 * contains `5` without sharing a word with it.
 */
export function choiceScores(prediction: string, golden: string): AnswerScores {
  return textScores(singleSpaced(prediction), singleSpaced(golden));
}

function singleSpaced(text: string): string {
  return splitWords(text.toLowerCase()).join(' ');
}

/** The scores of two normalised texts. */
function textScores(own: string, golden: string): AnswerScores {
  const [words, goldenWords] = [splitWords(own), splitWords(golden)];
  const same = commonWords(words, goldenWords);
  const [precision, recall] = [same / words.length, same / goldenWords.length];
  return { acc: own.includes(golden) ? 1 : 0, em: own === golden ? 1 : 0, f1: same === 0 ? 0 : (2 * precision * recall) / (precision + recall) };
}
