/**
 * Estimates of KL(policy || reference) from the log-probs of sampled tokens (Schulman, "Approximating KL divergence",
 * http://joschu.net/blog/kl-approx.html), d = log π − log π_ref. Names of Search-R1 and verl: `kl` is k1, `mse` k2, `low_var_kl` k3 with clamp [-10, 10].
 */
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

/** Log-probs of the trained tokens under the policy and under the reference. [N] each. */
export interface KlBatch {
  readonly logProbs: Float64Array;
  readonly referenceLogProbs: Float64Array;
}

/**
 * KL in the loss: adds `scale` · dk/dlogπ of the tokens from `start` up to, not including, `end` to the gradient and returns the sum of their (clamped)
 * estimates. Differentiates through the estimate, as upstream, TRL and verl do.
 */
export function addKlGradient(
  config: KlConfig,
  batch: KlBatch,
  [start, end]: readonly [number, number],
  scale: number,
  gradient: Float64Array,
): number {
  const { logProbs, referenceLogProbs } = batch;
  const { estimator } = config;
  const [low, high] = config.clamp ?? [-Infinity, Infinity];
  let sum = 0;
  for (let t = start; t < end; t++) {
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
 * KL in the reward (PPO): β times the clamped estimate of each token, a constant without gradient that is subtracted from the token's reward. GRPO, with
 * one reward per rollout, subtracts the sum. [N]
 */
export function klPenalties({ estimator, coefficient, clamp }: KlConfig, { logProbs, referenceLogProbs }: KlBatch): Float64Array {
  const [low, high] = clamp ?? [-Infinity, Infinity];
  return logProbs.map((logProb, t) => coefficient * Math.min(Math.max(klEstimate(estimator, logProb - referenceLogProbs[t]!), low), high));
}
