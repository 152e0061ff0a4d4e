/**
 * Generalised advantage estimation (arXiv 1506.02438) for PPO with a critic, as in Search-R1 and verl: over every token of a sequence, observations
 * included. The mask matters only when advantages are whitened.
 */
/** 1 on trained tokens, 0 elsewhere. [N] */
type Mask = Uint8Array;

export interface GaeConfig {
  /** γ, discount of later rewards, in [0, 1]. Upstream: 1. */
  readonly gamma: number;
  /** λ, from one-step (0) to Monte Carlo (1). Upstream: 1. */
  readonly lambda: number;
}

export interface GaeBatch {
  readonly offsets: Int32Array;
  /** [N] */
  readonly rewards: Float64Array;
  /** The critic's estimates, [N]; the value after the last token is 0. */
  readonly values: Float64Array;
}

/** δ_t = r_t + γ V_t+1 − V_t; A_t = δ_t + γλ A_t+1; the return is A_t + V_t. [N] each. */
export function gaeAdvantages({ gamma, lambda }: GaeConfig, { offsets, rewards, values }: GaeBatch) {
  const advantages = new Float64Array(rewards.length);
  const returns = new Float64Array(rewards.length);
  for (let i = 0; i < offsets.length - 1; i++) {
    let nextValue = 0;
    let advantage = 0;
    for (let t = offsets[i + 1]! - 1; t >= offsets[i]!; t--) {
      const delta = rewards[t]! + gamma * nextValue - values[t]!;
      advantage = delta + gamma * lambda * advantage;
      advantages[t] = advantage;
      returns[t] = advantage + values[t]!;
      nextValue = values[t]!;
    }
  }
  return { advantages, returns };
}

/**
 * Shifts and scales to mean 0 and variance 1 over the trained tokens (variance with n - 1, 1e-8 added, as upstream). [N] → [N]; masked tokens are
 * transformed alike. Pass a whole optimiser step, never a part. Throws with fewer than two trained tokens, which have no variance.
 */
export function whiten(values: Float64Array, mask: Mask): Float64Array {
  let count = 0;
  let sum = 0;
  for (let t = 0; t < values.length; t++) {
    if (mask[t] === 0) continue;
    count++;
    sum += values[t]!;
  }
  if (count < 2) throw new RangeError(`Whitening needs at least two trained tokens, got ${count}`);
  const mean = sum / count;
  let squares = 0;
  for (let t = 0; t < values.length; t++) if (mask[t] !== 0) squares += (values[t]! - mean) ** 2;
  const scale = 1 / Math.sqrt(squares / (count - 1) + 1e-8);
  return values.map((value) => (value - mean) * scale);
}
