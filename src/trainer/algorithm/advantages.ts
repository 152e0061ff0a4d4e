/**
 * Advantages from the outcome rewards of one group: rollouts of the same row. GRPO (arXiv 2402.03300), Dr. GRPO without the standard
 * deviation (arXiv 2503.20783), leave-one-out (RLOO, arXiv 2402.14740). Where trainers differ silently is an option here.
 */
import { RewardError } from '../../core/errors.ts';

export interface AdvantageConfig {
  /** What is taken off each reward: the group's mean, or the mean of the other members. */
  readonly baseline: 'mean' | 'leave_one_out';
  /** What the difference is divided by: the standard deviation with n - 1 (upstream, TRL), with n, or nothing. */
  readonly std: 'sample' | 'population' | 'none';
  /** Added to the standard deviation. Upstream and verl: 1e-6; TRL: 1e-4. Unused without one. */
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
  /** All rewards are equal: every advantage is exactly 0 (a raw singleton aside) and the group teaches nothing. */
  readonly isConstant: boolean;
}

/**
 * Throws RewardError on a reward that is not finite: it would spoil its whole group.
 * @param rewards [G], at least one; failed rollouts have none and must be left out
 */
export function groupAdvantages(rewards: ArrayLike<number>, config: AdvantageConfig): GroupAdvantages {
  const size = rewards.length;
  if (size === 0) throw new RangeError('Expected a group of at least one reward, got none');
  let sum = 0;
  let isConstant = true;
  for (let i = 0; i < size; i++) {
    const reward = rewards[i]!;
    if (!Number.isFinite(reward)) throw new RewardError(`Expected finite rewards, got ${reward} for member ${i} of a group of ${size}`);
    sum += reward;
    isConstant &&= reward === rewards[0];
  }
  // The mean of equal numbers is that number; its rounding error divided by epsilon would otherwise be an advantage.
  const mean = isConstant ? rewards[0]! : sum / size;
  const advantages = Float64Array.from(rewards, (reward) => reward - mean);
  const degrees = config.std === 'sample' ? Math.max(size - 1, 1) : size;
  const std = Math.sqrt(advantages.reduce((squares, difference) => squares + difference * difference, 0) / degrees);
  if (size === 1 && config.singleton === 'raw') {
    advantages[0] = config.std === 'none' ? mean : mean / (1 + config.epsilon);
  } else if (!isConstant) {
    const numerator = config.baseline === 'leave_one_out' ? size / (size - 1) : 1;
    const scale = numerator / (config.std === 'none' ? 1 : std + config.epsilon);
    for (let i = 0; i < size; i++) advantages[i]! *= scale;
  }
  return { advantages, mean, std, isConstant };
}
