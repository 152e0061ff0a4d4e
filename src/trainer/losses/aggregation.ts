/**
 * Aggregates token losses to one number. Every rule is a weight per sequence, computed from counts of the whole optimiser step, so the gradient does
 * not depend on how a step is split between sequences.
 */
import type { TokenCounts } from '../token-loss.ts';

export type Aggregation =
  /** Σ l: Tinker, whose client does all normalisation. */
  | { readonly kind: 'sum' }
  /** Σ l / tokens: DAPO (arXiv 2503.14476); PPO and GRPO of verl and Search-R1. */
  | { readonly kind: 'token_mean' }
  /**
   * (1 / D) Σ_i within_i: GRPO (arXiv 2402.03300) with `within: 'mean'`. D counts the sequences that have a trained token (verl), or
   * every one with `countEmpty` (TRL).
   */
  | { readonly kind: 'sequence_mean'; readonly within: 'mean' | 'sum'; readonly countEmpty: boolean }
  /** Σ l / (sequences · maxTokens), counting empty sequences: Dr. GRPO (arXiv 2503.20783). */
  | { readonly kind: 'constant'; readonly maxTokens: number };

/**
 * Factor of each token loss in a sequence with `length` trained tokens. `counts` are those of the whole step. A branch that counts as a part of its rollout has the length of the
 * rollout, and `counts` then has rollouts for sequences: so a rollout has the weight that it would have as one sequence with the same tokens.
 */
export function tokenWeight(aggregation: Aggregation, length: number, counts: TokenCounts): number {
  const isMeanWithin = aggregation.kind === 'sequence_mean' && aggregation.within === 'mean';
  return 1 / (divisor(aggregation, counts) * (isMeanWithin ? Math.max(length, 1) : 1));
}

function divisor(aggregation: Aggregation, counts: TokenCounts): number {
  switch (aggregation.kind) {
    case 'sum':
      return 1;
    case 'token_mean':
      return Math.max(counts.tokens, 1);
    case 'sequence_mean':
      return Math.max(aggregation.countEmpty ? counts.sequences : counts.trainedSequences, 1);
    default:
      return Math.max(counts.sequences, 1) * aggregation.maxTokens;
  }
}
