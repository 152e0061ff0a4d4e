/**
 * Advantages from the outcome rewards of one group: rollouts of the same row. GRPO (arXiv 2402.03300), Dr. GRPO without the standard
 * deviation (arXiv 2503.20783), leave-one-out (RLOO, arXiv 2402.14740). Details on which trainers differ silently are options here.
 */
import { RewardError } from '../../core/errors.ts';

export interface AdvantageConfig {
  /** Subtracted from each reward: the group's mean, or the mean of the other members. */
  readonly baseline: 'mean' | 'leave_one_out';
  /** Divisor of the difference: the standard deviation with n - 1 (upstream, TRL), with n, or none. */
  readonly std: 'sample' | 'population' | 'none';
  /** Added to the standard deviation. Upstream and verl: 1e-6; TRL: 1e-4. Unused with `none`. */
  readonly epsilon: number;
  /** The advantage of a group of one: its reward as if the mean were 0 and the deviation 1 (upstream), or 0 (TRL). */
  readonly singleton: 'raw' | 'zero';
}

export interface GroupAdvantages {
  /** [G] */
  readonly advantages: Float64Array;
  readonly mean: number;
  /** The standard deviation as configured, before epsilon; with `none` that of the group itself (n). */
  readonly std: number;
  /** All rewards are equal: every advantage is exactly 0 (except a raw singleton's), so the group gives no gradient. */
  readonly isConstant: boolean;
}

/**
 * Throws RewardError for a reward that is not finite, because it would spoil its whole group.
 * @param rewards [G], at least one; leave out failed rollouts, which have none
 * @example groupAdvantages([1, 0], { baseline: 'mean', std: 'none', epsilon: 0, singleton: 'zero' }).advantages // [0.5, -0.5]
 */
export function groupAdvantages(rewards: ArrayLike<number>, config: AdvantageConfig): GroupAdvantages {
  const size = rewards.length;
  if (size === 0) throw new RangeError('The group has no rewards. Pass at least one.');
  let sum = 0;
  let isConstant = true;
  for (let i = 0; i < size; i++) {
    const reward = rewards[i]!;
    if (!Number.isFinite(reward)) throw new RewardError(`Member ${i} of a group of ${size} has the reward ${reward}. Rewards must be finite.`);
    sum += reward;
    isConstant &&= reward === rewards[0];
  }
  // Avoids a rounding error in the mean of equal rewards, which divided by epsilon would become an advantage.
  const mean = isConstant ? rewards[0]! : Number.isFinite(sum) ? sum / size : Array.from(rewards).reduce((total, reward) => total + reward / size, 0);
  const advantages = Float64Array.from(rewards, (reward) => reward - mean);
  const degrees = config.std === 'sample' ? Math.max(size - 1, 1) : size;
  const std = Math.sqrt(advantages.reduce((squares, difference) => squares + difference * difference, 0) / degrees);
  // Rewards that reach 1e154 and more cannot be compared: the update would be NaN.
  if (!Number.isFinite(std)) return { advantages: advantages.fill(0), mean, std, isConstant };
  if (size === 1 && config.singleton === 'raw') {
    advantages[0] = config.std === 'none' ? mean : mean / (1 + config.epsilon);
  } else if (!isConstant) {
    const numerator = config.baseline === 'leave_one_out' ? size / (size - 1) : 1;
    const scale = numerator / (config.std === 'none' ? 1 : std + config.epsilon);
    for (let i = 0; i < size; i++) advantages[i]! *= scale;
  }
  return { advantages, mean, std, isConstant };
}
