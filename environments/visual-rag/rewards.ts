/** The rewards of both phases (DDAI, rm_phase1 and rm_phase2). */

/** Weights of the parts of phase 2's reward. */
export interface Coefficients {
  readonly judge: number;
  readonly ndcg: number;
  readonly format: number;
}

/** Upstream's RM_JUDGE_COEF, RM_NDCG_COEF and RM_FORMAT_COEF if they are not set. */
export const COEFFICIENTS: Coefficients = { judge: 0.8, ndcg: 0.2, format: 0 };

/** Phase 1 rewards the search alone: 0.1 for the format and 0.9 times the NDCG; 0 if the format fails. */
export function phase1Reward({ format, ndcg }: { readonly format: boolean; readonly ndcg: number }): number {
  return format ? 0.1 + 0.9 * ndcg : 0;
}

export interface Phase2Scores {
  /** The format gate passed; true without a gate. */
  readonly format: boolean;
  readonly ndcg: number;
  /** The judge's score, 0 to 1. */
  readonly judge: number;
}

/** Phase 2: the weighted sum of judge, NDCG and format; 0 if the format gate fails. */
export function phase2Reward(
  { format, ndcg, judge }: Phase2Scores,
  { judge: judgeWeight, ndcg: ndcgWeight, format: formatWeight }: Coefficients = COEFFICIENTS,
): number {
  return format ? judgeWeight * judge + ndcgWeight * ndcg + formatWeight : 0;
}
