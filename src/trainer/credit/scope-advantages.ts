/**
 * Advantages from the rewards of a whole scope, such as all rollouts of a role and task in a batch: reward minus the scope's mean, divided by its standard
 * deviation. REINFORCE++ (arXiv 2501.03262) and verl whiten over tokens, so that long rollouts weigh more; self-play compares the rollouts of a role
 * with each other.
 */
import { RewardError } from '../../core/errors.ts';

export interface ScopeConfig {
  /** The unit that counts once in the mean and deviation: a rollout, or each of its tokens (verl's whitening, with 1e-8 added to the variance). */
  readonly weighting: 'sequence' | 'token';
  /** Divisor: the standard deviation with n - 1, with n, or none. */
  readonly std: 'sample' | 'population' | 'none';
  /** Added to the standard deviation of sequences. */
  readonly epsilon: number;
}

/** A rollout of the scope. */
export interface ScopeMember {
  readonly reward: number;
  /** Number of its trained tokens. */
  readonly tokens: number;
  /** Its weight among rollouts, if it is one of several parts of a rollout. @default 1 */
  readonly share?: number;
}

/** Mean and variance, and how many rollouts or tokens they stand for. Merged over batches by `mergeMoments`. */
export interface Moments {
  readonly count: number;
  readonly mean: number;
  /** Sum of the squared differences from the mean. */
  readonly squares: number;
}

export interface ScopeAdvantages {
  /** One per member, [G]. */
  readonly advantages: Float64Array;
  readonly std: number;
  /** All rewards are equal, or there is only one. Without earlier moments every advantage is then exactly 0; with them it need not be. */
  readonly isConstant: boolean;
  readonly moments: Moments;
}

const WHITENING_EPSILON = 1e-8;

/**
 * Throws RewardError for a reward that is not finite.
 * @param earlier moments of earlier batches, merged into this batch's before they are used
 */
export function scopeAdvantages(members: readonly ScopeMember[], config: ScopeConfig, earlier: Moments | null = null): ScopeAdvantages {
  const wrong = members.find(({ reward }) => !Number.isFinite(reward));
  if (wrong) throw new RewardError(`A rollout of ${members.length} has the reward ${wrong.reward}. Rewards must be finite.`);
  const weights = members.map(({ tokens, share = 1 }) => (config.weighting === 'token' ? tokens : share));
  const own = momentsOf(members, weights);
  // Rewards that reach 1e154 and more cannot be compared, and must not spoil the moments of later batches.
  if (!Number.isFinite(own.squares)) {
    const zeros = new Float64Array(members.length);
    return { advantages: zeros, std: Infinity, isConstant: false, moments: earlier ?? { count: 0, mean: 0, squares: 0 } };
  }
  const moments = earlier === null ? own : mergeMoments(earlier, own);
  const isAlone = members.reduce((rollouts, { share = 1 }) => rollouts + share, 0) < 1.5;
  const isConstant = isAlone || members.every(({ reward }) => reward === members[0]!.reward);
  const degrees = config.std === 'population' ? moments.count : Math.max(moments.count - 1, 1);
  const variance = degrees === 0 ? 0 : moments.squares / degrees;
  const std = Math.sqrt(variance);
  const isFlat = moments.squares === 0 || (earlier === null && isConstant);
  const divisor = config.std === 'none' ? 1 : config.weighting === 'token' ? Math.sqrt(variance + WHITENING_EPSILON) : std + config.epsilon;
  const advantages = Float64Array.from(members, ({ reward }) => (isFlat ? 0 : (reward - moments.mean) / divisor));
  return { advantages, std, isConstant, moments };
}

/** Chan's parallel update of mean and variance. */
export function mergeMoments(a: Moments, b: Moments): Moments {
  const count = a.count + b.count;
  if (count === 0) return a;
  const difference = b.mean - a.mean;
  return {
    count,
    mean: a.mean + (difference * b.count) / count,
    squares: a.squares + b.squares + (difference * difference * a.count * b.count) / count,
  };
}

/** The same mean and variance, standing for a share of the count: older batches fade. */
export function decayMoments({ count, mean, squares }: Moments, decay: number): Moments {
  return { count: count * decay, mean, squares: squares * decay };
}

function momentsOf(members: readonly ScopeMember[], weights: readonly number[]): Moments {
  const count = weights.reduce((sum, weight) => sum + weight, 0);
  if (count === 0) return { count, mean: 0, squares: 0 };
  // Exactly, because a rounding error divided by a tiny deviation would become an advantage.
  const [{ reward: first }, ...others] = members.filter((_, i) => weights[i]! > 0) as [ScopeMember, ...ScopeMember[]];
  if (others.every(({ reward }) => reward === first)) return { count, mean: first, squares: 0 };
  const mean = members.reduce((sum, { reward }, i) => sum + weights[i]! * reward, 0) / count;
  const squares = members.reduce((sum, { reward }, i) => sum + weights[i]! * (reward - mean) ** 2, 0);
  return { count, mean, squares };
}
