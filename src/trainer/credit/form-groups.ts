/**
 * Turns the rollouts of a step into groups with advantages; the rollouts of a row form a group. A failed rollout has no reward and leaves its group.
 * A group with fewer than two members gives no advantage and is dropped.
 */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { groupAdvantages } from './advantages.ts';
import type { Trajectory } from '../sources/trajectory.ts';

/** A trajectory with what the loss needs. */
export interface TrainingSequence {
  readonly trajectory: Trajectory;
  readonly advantage: number;
  /** Tokens with a loss: the sampled ones, or none if the rollout is masked as truncated. [M] or empty */
  readonly targets: Int32Array;
  /** Their log-probs under the sampler. [M] or empty */
  readonly logProbs: Float64Array;
}

export interface FormedGroups {
  /** By group, in the order of the step's rows. Includes constant groups only if they are kept. */
  readonly groups: readonly (readonly TrainingSequence[])[];
  readonly tooSmall: number;
  readonly constant: number;
  /** Mean standard deviation within groups of two or more, as used by the advantages; null without such groups. */
  readonly meanStd: number | null;
}

/** @param penalty subtracted from a trajectory's reward (KL in the reward); not called for one without a reward */
export function formGroups(
  trajectories: readonly Trajectory[],
  { algorithm, rollouts }: Pick<TrainingConfig, 'algorithm' | 'rollouts'>,
  penalty: ((trajectory: Trajectory) => number) | null = null,
): FormedGroups {
  const groups: TrainingSequence[][] = [];
  const deviations: number[] = [];
  let [tooSmall, constant] = [0, 0];
  for (const members of byGroup(trajectories)) {
    const finished = members.filter((member) => member.reward !== null);
    if (finished.length < 2) {
      tooSmall++;
      continue;
    }
    const rewards = finished.map((member) => member.reward! - (penalty?.(member) ?? 0));
    const { advantages, std, isConstant } = groupAdvantages(rewards, algorithm.advantage);
    deviations.push(std);
    if (isConstant) constant++;
    if (isConstant && algorithm.constantGroups === 'drop') continue;
    const sign = algorithm.negateAdvantages ? -1 : 1;
    groups.push(finished.map((trajectory, i) => trainingSequence(trajectory, sign * advantages[i]!, rollouts.truncated)));
  }
  const meanStd = deviations.length === 0 ? null : deviations.reduce((sum, std) => sum + std, 0) / deviations.length;
  return { groups, tooSmall, constant, meanStd };
}

function trainingSequence(trajectory: Trajectory, advantage: number, truncated: 'train' | 'mask'): TrainingSequence {
  const isMasked = truncated === 'mask' && trajectory.isTruncated;
  const { targets, logProbs } = trajectory;
  return isMasked
    ? { trajectory, advantage, targets: targets.subarray(0, 0), logProbs: logProbs.subarray(0, 0) }
    : { trajectory, advantage, targets, logProbs };
}

function byGroup(trajectories: readonly Trajectory[]): Iterable<Trajectory[]> {
  const groups = new Map<string, Trajectory[]>();
  // By index, not by arrival: the batch must not depend on which rollout ended first.
  const ordered = trajectories.toSorted((a, b) => a.index - b.index);
  for (const { groupId } of trajectories) groups.set(groupId, []);
  for (const trajectory of ordered) groups.get(trajectory.groupId)!.push(trajectory);
  return groups.values();
}
