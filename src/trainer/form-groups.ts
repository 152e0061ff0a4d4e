/**
 * From the rollouts of a step to what is trained on: groups of the same row, their advantages, and which of them teach anything. A failed rollout has
 * no reward and leaves its group; a group below two members says nothing and is dropped.
 */
import type { TrainingConfig } from '../schemas/training-config.ts';
import { groupAdvantages } from './algorithm/advantages.ts';
import type { Trajectory } from './trajectory.ts';

/** One trajectory with what the loss needs to know of it. */
export interface TrainingSequence {
  readonly trajectory: Trajectory;
  readonly advantage: number;
  /** Tokens that the loss is taken of: the sampled ones, or none of a rollout that is masked as truncated. [M] or empty */
  readonly targets: Int32Array;
  /** The sampler's log-probs of these. [M] or empty */
  readonly logProbs: Float64Array;
}

export interface FormedGroups {
  /** By group, in the order of the step's rows. Constant groups are here only where they are kept. */
  readonly groups: readonly (readonly TrainingSequence[])[];
  readonly tooSmall: number;
  readonly constant: number;
  /** Mean of the deviations within the groups of two and more, as the advantages use them; null without one. */
  readonly meanStd: number | null;
}

/** @param penalty what is taken off the reward of a trajectory (KL in the reward); never of one without a reward */
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
  // By place, not by arrival: what is trained on must not depend on which rollout ended first.
  const ordered = trajectories.toSorted((a, b) => a.index - b.index);
  for (const { groupId } of trajectories) groups.set(groupId, []);
  for (const trajectory of ordered) groups.get(trajectory.groupId)!.push(trajectory);
  return groups.values();
}
