/**
 * Interface of credit assignment: turns the rewards of a batch into an advantage for every token. `GroupCredit` compares the rollouts of a row with each
 * other, `ScopeCredit` those of a role and task, and `demonstration` gives the tokens of supervised rows their weights.
 */
import type { ForwardOptions } from './gradient-backend.ts';
import { isDemonstration, type Trajectory } from './trajectory.ts';

/** Log-probs without a gradient of the targets of each sequence, [M_i], under the policy that is trained or the one at the start of the run. NaN if they are not finite. */
export type LogProbPass = (
  sequences: readonly Pick<Trajectory, 'ids' | 'targets' | 'images'>[],
  adapter: ForwardOptions['adapter'],
) => Promise<readonly Float64Array[]>;

/** A trajectory with what a loss needs. */
export interface TrainingSequence extends Pick<Trajectory, 'ids' | 'images'> {
  readonly trajectory: Trajectory;
  /** A supervised row: it has weights instead of a reward. */
  readonly isDemonstration: boolean;
  /** Tokens with a loss: indices in the trajectory's `ids`, or none if the rollout is masked as truncated. [M] or empty */
  readonly targets: Int32Array;
  /** One per target. [M] or empty */
  readonly advantages: Float64Array;
  /** Log-probs of the targets under the sampler; null if they are unknown. [M] or empty */
  readonly logProbs: Float64Array | null;
  /** Denominator of the ratio; null uses the log-probs of the current pass, so that the ratio is 1. [M] or empty */
  readonly oldLogProbs: Float64Array | null;
  /** Under the policy at the start of the run; null if no loss needs it. [M] or empty */
  readonly referenceLogProbs: Float64Array | null;
}

export interface CreditedBatch {
  /** Sequences that are never split between minibatches: the rollouts of a row, or a single row. In the order of the batch. */
  readonly groups: readonly (readonly TrainingSequence[])[];
  /** By their names in metrics.ts: `groups`, `groups_constant`, ... */
  readonly values: Readonly<Record<string, number | null>>;
  /** The reason why there is nothing to learn if all advantages are 0. */
  readonly constantReason: string;
}

export interface Credit {
  /**
   * Failed trajectories have no reward and take no part. Throws RewardError for a reward that is not finite.
   * @param pass for a KL penalty in the reward, which needs log-probs under the policy at the start of the run
   */
  assign(trajectories: readonly Trajectory[], pass: LogProbPass): Promise<CreditedBatch>;
  /** Writes what later steps depend on, such as running means, into a folder of a checkpoint. */
  saveState(directory: string): Promise<void>;
  /** Reads what `saveState` wrote. If the folder lacks it, the credit stays as at the start of a run. */
  loadState(directory: string): Promise<void>;
}

/** The tokens of a trajectory with one advantage for all, or one for each. `mask` leaves out those of truncated rollouts. */
export function trainingSequence(trajectory: Trajectory, advantages: number | Float64Array, truncated: 'train' | 'mask' = 'train'): TrainingSequence {
  const { ids, images, targets, logProbs, isTruncated } = trajectory;
  const perToken = typeof advantages === 'number' ? new Float64Array(targets.length).fill(advantages) : advantages;
  const kept = truncated === 'mask' && isTruncated ? 0 : targets.length;
  return {
    trajectory,
    ids,
    ...(images === undefined ? {} : { images }),
    isDemonstration: isDemonstration(trajectory),
    targets: targets.subarray(0, kept),
    advantages: perToken.subarray(0, kept),
    logProbs: logProbs?.subarray(0, kept) ?? null,
    oldLogProbs: null,
    referenceLogProbs: null,
  };
}

/** A supervised row: the weight of each token is its advantage. */
export function demonstration(trajectory: Trajectory): TrainingSequence {
  return trainingSequence(trajectory, trajectory.weights ?? 1);
}

/** The trajectories of each group, by index: the batch must not depend on which rollout ended first. */
export function byGroup(trajectories: readonly Trajectory[]): readonly (readonly Trajectory[])[] {
  const groups = new Map<string, Trajectory[]>();
  for (const { groupId } of trajectories) groups.set(groupId, []);
  for (const trajectory of trajectories.toSorted((a, b) => a.index - b.index)) groups.get(trajectory.groupId)!.push(trajectory);
  return [...groups.values()];
}
