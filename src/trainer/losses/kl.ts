/**
 * Estimates of KL(policy || reference) from the log-probs of sampled tokens (Schulman, "Approximating KL divergence",
 * http://joschu.net/blog/kl-approx.html), d = log π − log π_ref. Names of Search-R1 and verl: `kl` is k1, `mse` k2, `low_var_kl` k3 with clamp [-10, 10].
 */
import { type TokenLayout, trainedTokens } from './token-mask.ts';

/** k1: d. abs: |d|. k2: d² / 2. k3: e^-d + d − 1, never negative. */
export type KlEstimator = 'k1' | 'abs' | 'k2' | 'k3';

export interface KlConfig {
  readonly estimator: KlEstimator;
  /** β, the weight of the penalty. Upstream: 0.001. */
  readonly coefficient: number;
  /** Bounds of one token's estimate; outside, its gradient is 0. Upstream: [-10, 10] for k3 only. */
  readonly clamp: readonly [number, number] | null;
  /** The policy to stay close to: the frozen initial model, or the denominator of the ratio. */
  readonly against: 'reference' | 'old';
}

/** The estimate for one token with log-ratio d, unclamped. */
export function klEstimate(estimator: KlEstimator, d: number): number {
  if (estimator === 'k3') return Math.expm1(-d) + d;
  if (estimator === 'k2') return 0.5 * d * d;
  return estimator === 'k1' ? d : Math.abs(d);
}

/** Derivative of the estimate by the policy's log-prob, given the unclamped estimate. */
function klSlope(estimator: KlEstimator, d: number, estimate: number): number {
  if (estimator === 'k3') return d - estimate; // 1 − e^-d, without a second exponential
  if (estimator === 'k2') return d;
  return estimator === 'k1' ? 1 : Math.sign(d);
}

/** Log-probs of the sampled tokens under the policy and under the reference. [N] each. */
export interface KlBatch {
  readonly logProbs: Float64Array;
  readonly referenceLogProbs: Float64Array;
}

/**
 * KL in the loss: adds `scale` · dk/dlogπ of the tokens at `positions` to the gradient and returns the sum of their (clamped) estimates.
 * Differentiates through the estimate, as upstream, TRL and verl do.
 */
export function addKlGradient(config: KlConfig, batch: KlBatch, positions: Int32Array, scale: number, gradient: Float64Array): number {
  const { logProbs, referenceLogProbs } = batch;
  const { estimator } = config;
  const low = config.clamp?.[0] ?? -Infinity;
  const high = config.clamp?.[1] ?? Infinity;
  let sum = 0;
  for (let k = 0; k < positions.length; k++) {
    const t = positions[k]!;
    const d = logProbs[t]! - referenceLogProbs[t]!;
    const estimate = klEstimate(estimator, d);
    if (estimate < low) sum += low;
    else if (estimate > high) sum += high;
    else {
      sum += estimate;
      gradient[t]! += scale * klSlope(estimator, d, estimate);
    }
  }
  return sum;
}

/**
 * KL in the reward (PPO): each trained token's reward minus β times its estimate, a constant without gradient. `meanKl` is the mean, over sequences
 * with a trained token, of their mean estimate, as in upstream.
 * @param rewards per token, [N]; an outcome reward belongs to the last token of its sequence
 */
export function klPenalizedRewards(
  config: KlConfig,
  batch: KlBatch & TokenLayout,
  rewards: Float64Array,
): { readonly rewards: Float64Array; readonly meanKl: number } {
  const { logProbs, referenceLogProbs } = batch;
  const { positions, starts } = trainedTokens(batch);
  const [low, high] = config.clamp ?? [-Infinity, Infinity];
  const penalized = rewards.slice();
  let sumOfMeans = 0;
  let sequences = 0;
  for (let i = 0; i < starts.length - 1; i++) {
    const own = positions.subarray(starts[i], starts[i + 1]);
    let sum = 0;
    for (const t of own) {
      const estimate = Math.min(Math.max(klEstimate(config.estimator, logProbs[t]! - referenceLogProbs[t]!), low), high);
      penalized[t]! -= config.coefficient * estimate;
      sum += estimate;
    }
    if (own.length === 0) continue;
    sumOfMeans += sum / own.length;
    sequences++;
  }
  return { rewards: penalized, meanKl: sumOfMeans / Math.max(sequences, 1) };
}

/**
 * KL in the reward for one reward per rollout (GRPO): each sequence's reward minus β times the sum of its trained tokens' estimates. Apply it before
 * `groupAdvantages`; upstream's rewards per token sum to the same number. `meanKl` as in `klPenalizedRewards`.
 * @param rewards one per sequence, [B]; returns [B]
 */
export function klPenalizedOutcomes(
  config: KlConfig,
  batch: KlBatch & TokenLayout,
  rewards: ArrayLike<number>,
): { readonly rewards: Float64Array; readonly meanKl: number } {
  const { offsets, mask } = batch;
  if (rewards.length !== offsets.length - 1) {
    throw new RangeError(`There are ${offsets.length - 1} sequences, but ${rewards.length} rewards`);
  }
  const { rewards: penalties, meanKl } = klPenalizedRewards(config, batch, new Float64Array(mask.length));
  const penaltyOf = (i: number) => penalties.subarray(offsets[i], offsets[i + 1]).reduce((sum, penalty) => sum + penalty, 0);
  return { rewards: Float64Array.from(rewards, (reward, i) => reward + penaltyOf(i)), meanKl };
}
