/**
 * Upstream's scores of one sequence: prompt, assistant anchor, response (verl/utils/reward_score/{qa_em,qa_em_format}.py). The prompt is part of the
 * sequence, because upstream relies on the two answer tags in it.
 */
import { emCheck, normalizeAnswer, subemCheck } from './answer.ts';
import { isValidSequence } from './format.ts';
import { strip } from 'vf-search/metrics/python-text';
import type { GroundTruth } from './rows.ts';
import { findBlocks } from 'vf-search/metrics/tag-blocks';

/** Omitted weights take upstream's defaults: 0, 0, 0 and 1. */
export interface FormatWeights {
  /** The score of a valid format without a correct answer; subtracted from a correct answer in an invalid format. */
  readonly structureFormatScore?: number;
  /** The score of a wrong answer in an invalid format. */
  readonly finalFormatScore?: number;
  /** Added to the structure score if a golden answer was retrieved. */
  readonly retrievalScore?: number;
  /** The score of a correct answer. */
  readonly score?: number;
}

export interface MatchWeights {
  /** The score of a wrong answer. @default 0 */
  readonly formatScore?: number;
  /** The score of a correct answer. @default 1 */
  readonly score?: number;
}

/**
 * The last `<answer>` of a sequence, stripped; null if there are fewer than two, because upstream assumes one in the prompt. The official prompt has two,
 * so a response without an answer gives "Beijing", or "and" after a corrective message.
 */
export function extractSolution(sequence: string): string | null {
  let count = 0;
  let last = '';
  for (const { content } of findBlocks(sequence, 'answer')) {
    count += 1;
    last = content;
  }
  return count < 2 ? null : strip(last);
}

/** All `<information>` blocks, stripped; the official prompt contains one, "and". */
export function extractInformationBlocks(sequence: string): string[] {
  return Array.from(findBlocks(sequence, 'information'), ({ content }) => strip(content));
}

/** Tells whether any block contains any golden answer, both normalised. A bare string is treated as a list of its characters, as Python iterates it. */
export function isRetrievalCorrect(sequence: string, goldenAnswers: readonly string[] | string): boolean {
  const golden = Array.from(goldenAnswers, normalizeAnswer);
  if (golden.length === 0) return false;
  return extractInformationBlocks(sequence).some((block) => {
    const normalized = normalizeAnswer(block);
    return golden.some((answer) => normalized.includes(answer));
  });
}

/** Exact match (upstream v0.1 and v0.2): 0 without an answer, `score` for a correct answer, else `formatScore`. */
export function computeScoreEm(sequence: string, groundTruth: GroundTruth, weights: MatchWeights = {}): number {
  return matchScore(sequence, groundTruth, weights, emCheck);
}

/** Like `computeScoreEm`, but a golden answer may occur anywhere in the prediction. */
export function computeScoreSubem(sequence: string, groundTruth: GroundTruth, weights: MatchWeights = {}): number {
  return matchScore(sequence, groundTruth, weights, subemCheck);
}

function matchScore(sequence: string, { target }: GroundTruth, weights: MatchWeights, check: typeof emCheck): number {
  const answer = extractSolution(sequence);
  if (answer === null) return 0;
  return check(answer, target) ? (weights.score ?? 1) : (weights.formatScore ?? 0);
}

/** Exact match with format and retrieval scores (upstream v0.3); with weights 0, 0, 0, 1 it equals `computeScoreEm`. */
export function computeScoreEmFormat(sequence: string, groundTruth: GroundTruth, weights: FormatWeights = {}): number {
  const { valid } = isValidSequence(sequence);
  const answer = extractSolution(sequence);
  return formatScore(weights, {
    answer: answer === null ? null : emCheck(answer, groundTruth.target) === 1,
    valid,
    retrieved: () => isRetrievalCorrect(sequence, groundTruth.target),
  });
}

/** Upstream's score table. `answer`: true if the answer is correct, null if there is none. Retrieval counts only in a valid format. */
export function formatScore(weights: FormatWeights, facts: { answer: boolean | null; valid: boolean; retrieved: () => boolean }): number {
  const { structureFormatScore = 0, finalFormatScore = 0, retrievalScore = 0, score = 1 } = weights;
  if (facts.answer) return facts.valid ? score : score - structureFormatScore;
  if (facts.valid) return facts.retrieved() ? structureFormatScore + retrievalScore : structureFormatScore;
  return facts.answer === null ? 0 : finalFormatScore;
}
