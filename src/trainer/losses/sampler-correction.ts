/**
 * Importance weights that correct for server and trainer not computing bit-identical log-probs, or for stale rollouts: π_old / π_sampler, held constant,
 * multiplies a token's policy term and leaves KL and entropy terms alone. Truncated importance sampling ("Your efficient RL framework secretly brings you
 * off-policy RL training", 2025) bounds the weight; masked importance sampling (IcePop, 2025; prime-rl) drops tokens outside the bounds.
 */
import type { RatioSums } from './ratio-sums.ts';
import type { TokenLossBatch } from '../token-loss.ts';

export interface SamplerCorrection {
  /** The ratio of each token, the product over the trained tokens of the sequence, or its geometric mean. */
  readonly level: 'token' | 'sequence' | 'geometric';
  /** The treatment of a weight outside the bounds: it becomes the bound, or 0. TRL has both per token and sequence; prime-rl masks. */
  readonly mode: 'truncate' | 'mask';
  /** Lower bound of the weight; 0 for none. TRL: none; prime-rl masks below 0.125. */
  readonly min: number;
  /** Upper bound of the weight. TRL: 3 (earlier 2); prime-rl masks above 8. */
  readonly max: number;
}

interface Tokens {
  readonly start: number;
  readonly end: number;
}

/** Fills the weights of the sequence's tokens. */
export function correctionWeights(
  { level, mode, min, max }: SamplerCorrection,
  { oldLogProbs, samplerLogProbs }: TokenLossBatch,
  { start, end }: Tokens,
  corrections: Float64Array,
  sums: RatioSums,
): void {
  let logRatios = 0;
  for (let t = start; t < end; t++) logRatios += oldLogProbs![t]! - samplerLogProbs![t]!;
  const ofSequence = level === 'token' ? 0 : Math.exp(level === 'sequence' ? logRatios : logRatios / (end - start));
  let [total, outside] = [0, 0];
  let { minCorrection, maxCorrection } = sums;
  for (let t = start; t < end; t++) {
    const ratio = level === 'token' ? Math.exp(oldLogProbs![t]! - samplerLogProbs![t]!) : ofSequence;
    const isOutside = ratio > max || ratio < min;
    const weight = isOutside ? (mode === 'mask' ? 0 : ratio > max ? max : min) : ratio; // a NaN stays one
    // TRL counts a ratio that equals its cap as truncated.
    if (isOutside || (mode === 'truncate' && ratio === max)) outside++;
    corrections[t] = weight;
    total += weight;
    if (weight < minCorrection) minCorrection = weight;
    if (weight > maxCorrection) maxCorrection = weight;
  }
  sums.mismatch -= logRatios;
  sums.correction += total;
  sums.outside += outside;
  sums.minCorrection = minCorrection;
  sums.maxCorrection = maxCorrection;
}
