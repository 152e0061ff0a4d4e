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
  return memberAdvantages(
    Array.from(rewards, (reward) => [reward]),
    config,
  );
}

interface MemberReward {
  readonly reward: number;
  /** The rewards of a member add up to the weight of one. */
  readonly share: number;
  /** The mean of the member. */
  readonly mean: number;
}

/**
 * As `groupAdvantages`, with several rewards of each member, such as those of the branches of a rollout: a member counts once in mean and deviation, as the mean over its
 * rewards, and is not compared with itself where the others are the baseline. Each reward has its advantage, [sum of the members' rewards].
 * @param members [G], at least one; none is empty
 */
export function memberAdvantages(members: readonly (readonly number[])[], config: AdvantageConfig): GroupAdvantages {
  const size = members.length;
  if (size === 0) throw new RangeError('The group has no rewards. Pass at least one.');
  const all = members.flatMap((own, i) => memberRewards(own, `Member ${i} of a group of ${size}`));
  const first = all[0]!.reward;
  const isConstant = all.every(({ reward }) => reward === first);
  const sum = all.reduce((total, { reward, share }) => total + reward * share, 0);
  // Avoids a rounding error in the mean of equal rewards, which divided by epsilon would become an advantage.
  const mean = isConstant ? first : Number.isFinite(sum) ? sum / size : all.reduce((total, { reward, share }) => total + (reward * share) / size, 0);
  const advantages = Float64Array.from(all, ({ reward }) => reward - mean);
  const degrees = config.std === 'sample' ? Math.max(size - 1, 1) : size;
  const std = Math.sqrt(advantages.reduce((squares, difference, i) => squares + difference * difference * all[i]!.share, 0) / degrees);
  // Rewards that reach 1e154 and more cannot be compared: the update would be NaN.
  if (!Number.isFinite(std)) return { advantages: advantages.fill(0), mean, std, isConstant };
  if (all.length === 1 && config.singleton === 'raw') {
    advantages[0] = config.std === 'none' ? mean : mean / (1 + config.epsilon);
  } else if (!isConstant) {
    const divisor = config.std === 'none' ? 1 : std + config.epsilon;
    const scale = (config.baseline === 'leave_one_out' && size > 1 ? size / (size - 1) : 1) / divisor;
    for (const [i, own] of all.entries())
      advantages[i] = own.share === 1 ? advantages[i]! * scale : (own.mean - mean) * scale + (own.reward - own.mean) / divisor;
  }
  return { advantages, mean, std, isConstant };
}

function memberRewards(rewards: readonly number[], member: string): readonly MemberReward[] {
  const wrong = rewards.find((reward) => !Number.isFinite(reward));
  if (wrong !== undefined) throw new RewardError(`${member} has the reward ${wrong}. Rewards must be finite.`);
  const share = 1 / rewards.length;
  const mean = rewards.reduce((total, reward) => total + reward * share, 0);
  return rewards.map((reward) => ({ reward, share, mean }));
}
