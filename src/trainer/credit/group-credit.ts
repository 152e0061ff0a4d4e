/**
 * Compares the rollouts of a row with each other (GRPO, Dr. GRPO, RLOO). A failed rollout has no reward and leaves its group. A group with fewer than two
 * members gives no advantage and is dropped.
 */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { isDemonstration, type Trajectory } from '../trajectory.ts';
import { byGroup, type Credit, type CreditedBatch, demonstration, type LogProbPass, trainingSequence, type TrainingSequence } from '../credit.ts';
import { groupAdvantages } from './group-advantages.ts';
import { creditable, penaltyValues, rewardPenalties } from './kl-penalty.ts';

export type CreditConfig = Pick<TrainingConfig, 'algorithm' | 'rollouts'>;

export class GroupCredit implements Credit {
  readonly #config: CreditConfig;

  constructor(config: CreditConfig) {
    this.#config = config;
  }

  async assign(trajectories: readonly Trajectory[], pass: LogProbPass): Promise<CreditedBatch> {
    const { algorithm, rollouts } = this.#config;
    const demonstrations = trajectories.filter(isDemonstration);
    const played = trajectories.filter((trajectory) => !isDemonstration(trajectory));
    const penalties = await rewardPenalties(played, algorithm, pass);
    const groups: TrainingSequence[][] = [];
    const deviations: number[] = [];
    let [tooSmall, constant] = [0, 0];
    for (const members of byGroup(played)) {
      const finished = creditable(members, penalties);
      if (finished.length < 2) {
        tooSmall++;
        continue;
      }
      const rewards = finished.map((member) => member.reward! - sum(penalties?.get(member)));
      const { advantages, std, isConstant } = groupAdvantages(rewards, { ...algorithm.advantage, singleton: 'zero' });
      deviations.push(std);
      if (isConstant) constant++;
      if (isConstant && algorithm.constantGroups === 'drop') continue;
      const sign = algorithm.negateAdvantages ? -1 : 1;
      groups.push(
        finished.map((trajectory, i) => trainingSequence(trajectory, sign * advantages[i]! * (trajectory.staleWeight ?? 1), rollouts.truncated)),
      );
    }
    const values = {
      group_reward_std: deviations.length === 0 ? null : deviations.reduce((total, std) => total + std, 0) / deviations.length,
      groups: new Set(played.map(({ groupId }) => groupId)).size - tooSmall,
      groups_constant: constant,
      groups_too_small: tooSmall,
      sequences_dropped: played.filter(({ reward }) => reward !== null).length - creditable(played, penalties).length,
      ...penaltyValues(penalties, algorithm),
    };
    return {
      groups: [...groups, ...demonstrations.map((row) => [demonstration(row)])],
      values: played.length === 0 ? {} : values,
      constantReason: 'no group has two finished rollouts with different rewards',
    };
  }

  async saveState(): Promise<void> {}

  async loadState(): Promise<void> {}
}

function sum(values: Float64Array | undefined): number {
  return values?.reduce((total, value) => total + value, 0) ?? 0;
}
