/**
 * Upstream's scores over one scored sequence: prompt, assistant anchor, response (verl/utils/reward_score/{qa_em,qa_em_format}.py).
 * The prompt belongs to the sequence: it holds two of the answer matches that upstream counts on.
 */
import { emCheck, normalizeAnswer, subemCheck } from './answer.ts';
import { isValidSequence } from './format.ts';
import { strip } from './python-text.ts';
import type { GroundTruth } from './rows.ts';
import { findBlocks } from './tags.ts';

/** Omitted weights take upstream's defaults: 0, 0, 0 and 1. */
export interface FormatWeights {
  /** Paid for a valid format without a correct answer, and missing from a correct answer in an invalid format. */
  readonly structureFormatScore?: number;
  /** Paid for a wrong answer in an invalid format. */
  readonly finalFormatScore?: number;
  /** Added to the structure score when a golden answer was retrieved. */
  readonly retrievalScore?: number;
  /** Paid for a correct answer. */
  readonly score?: number;
}

export interface MatchWeights {
  /** Paid for a wrong answer. @default 0 */
  readonly formatScore?: number;
  /** Paid for a correct answer. @default 1 */
  readonly score?: number;
}

/**
 * The last `<answer>` of a sequence, stripped; null when it holds fewer than two, for upstream counts on one in the prompt. The official
 * prompt holds two, so a response without an answer gives "Beijing", or "and" once a corrective message was appended.
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

/** Every `<information>` block, stripped; the official prompt holds one, "and". */
export function extractInformationBlocks(sequence: string): string[] {
  return Array.from(findBlocks(sequence, 'information'), ({ content }) => strip(content));
}

/** Whether some block holds some golden answer, both normalised. A bare string is read character by character, as Python iterates it. */
export function isRetrievalCorrect(sequence: string, goldenAnswers: readonly string[] | string): boolean {
  const golden = Array.from(goldenAnswers, normalizeAnswer);
  if (golden.length === 0) return false;
  return extractInformationBlocks(sequence).some((block) => {
    const normalized = normalizeAnswer(block);
    return golden.some((answer) => normalized.includes(answer));
  });
}

/** Exact match (upstream v0.1 and v0.2): 0 without an answer, `score` for a correct one, else `formatScore`. */
export function computeScoreEm(sequence: string, groundTruth: GroundTruth, weights: MatchWeights = {}): number {
  return matchScore(sequence, groundTruth, weights, emCheck);
}

/** As `computeScoreEm`, with a golden answer anywhere in the prediction. */
export function computeScoreSubem(sequence: string, groundTruth: GroundTruth, weights: MatchWeights = {}): number {
  return matchScore(sequence, groundTruth, weights, subemCheck);
}

function matchScore(sequence: string, { target }: GroundTruth, weights: MatchWeights, check: typeof emCheck): number {
  const answer = extractSolution(sequence);
  if (answer === null) return 0;
  return check(answer, target) ? (weights.score ?? 1) : (weights.formatScore ?? 0);
}

/** Exact match with format and retrieval shares (upstream v0.3); with weights 0, 0, 0, 1 it equals `computeScoreEm`. */
export function computeScoreEmFormat(sequence: string, groundTruth: GroundTruth, weights: FormatWeights = {}): number {
  const { valid } = isValidSequence(sequence);
  const answer = extractSolution(sequence);
  return formatScore(weights, {
    answer: answer === null ? null : emCheck(answer, groundTruth.target) === 1,
    valid,
    retrieved: () => isRetrievalCorrect(sequence, groundTruth.target),
  });
}

/** Upstream's table. `answer` is null without an answer, else whether it is correct; retrieval counts only in a valid format. */
export function formatScore(weights: FormatWeights, facts: { answer: boolean | null; valid: boolean; retrieved: () => boolean }): number {
  const { structureFormatScore = 0, finalFormatScore = 0, retrievalScore = 0, score = 1 } = weights;
  if (facts.answer) return facts.valid ? score : score - structureFormatScore;
  if (facts.valid) return facts.retrieved() ? structureFormatScore + retrievalScore : structureFormatScore;
  return facts.answer === null ? 0 : finalFormatScore;
}
