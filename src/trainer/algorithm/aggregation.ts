/**
 * How token losses become one number. Every rule is a weight per sequence made of counts of the whole optimiser step, so a step gives the same
 * gradient however it is split between sequences.
 */
import type { TokenCounts } from './token-mask.ts';

export type Aggregation =
  /** Σ l: Tinker, whose client owns every normaliser. */
  | { readonly kind: 'sum' }
  /** Σ l / tokens: DAPO (arXiv 2503.14476); PPO and GRPO of verl and Search-R1. */
  | { readonly kind: 'token_mean' }
  /**
   * (1 / D) Σ_i within_i: GRPO (arXiv 2402.03300) with `within: 'mean'`. D counts the sequences that have a trained token (verl), or
   * every one with `countEmpty` (TRL).
   */
  | { readonly kind: 'sequence_mean'; readonly within: 'mean' | 'sum'; readonly countEmpty: boolean }
  /** Σ l / (sequences · maxTokens), the empty sequences counted: Dr. GRPO (arXiv 2503.20783). */
  | { readonly kind: 'constant'; readonly maxTokens: number };

/** What each trained token's loss is multiplied by. `lengths`: trained tokens of these sequences; `counts`: of the whole step. [B] → [B] */
export function sequenceWeights(aggregation: Aggregation, lengths: Int32Array, counts: TokenCounts): Float64Array {
  const weights = new Float64Array(lengths.length).fill(1 / divisor(aggregation, counts));
  if (aggregation.kind === 'sequence_mean' && aggregation.within === 'mean') {
    for (let i = 0; i < weights.length; i++) weights[i]! /= Math.max(lengths[i]!, 1);
  }
  return weights;
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
