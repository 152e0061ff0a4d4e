/** Compares the rollouts of a row with each other (GRPO, Dr. GRPO, RLOO). A group with fewer than two members gives no advantage and is left out. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { Trajectory } from '../trajectory.ts';
import type { Credit, CreditAssignment, CreditBatch, CreditRollout } from '../credit.ts';
import { groupAdvantages } from './group-advantages.ts';

export type CreditConfig = Pick<TrainingConfig, 'algorithm' | 'rollouts'>;

export function groupCredit({ algorithm }: CreditConfig): Credit {
  return { needs: { penalties: true }, assign: (batch) => compared(batch, algorithm) };
}

function compared({ groups, failed }: CreditBatch, algorithm: CreditConfig['algorithm']): CreditAssignment {
  const deviations: number[] = [];
  let constant = 0;
  const advantages = groups.map((members) => {
    if (members.length < 2) return members.map(() => null);
    const own = groupAdvantages(members.map(penalised), { ...algorithm.advantage, singleton: 'zero' });
    deviations.push(own.std);
    if (own.isConstant) constant++;
    return own.isConstant && algorithm.constantGroups === 'drop' ? members.map(() => null) : [...own.advantages];
  });
  const played = new Set([...groups.flat().map(({ trajectory }) => trajectory), ...failed].map(({ groupId }) => groupId)).size;
  return {
    advantages,
    values: {
      group_reward_std: meanOrNull(deviations),
      groups: deviations.length,
      groups_constant: constant,
      groups_too_small: played - deviations.length,
    },
    constantReason: 'no group has two finished rollouts with different rewards',
  };
}

/** The reward without the penalties of all tokens. */
function penalised({ reward, penalties }: CreditRollout): number {
  return reward - (penalties?.reduce((total, value) => total + value, 0) ?? 0);
}

export function meanOrNull(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((total, value) => total + value, 0) / values.length;
}

/** The scope that a trajectory is compared in. */
export function scopeKey(scope: CreditConfig['algorithm']['advantage']['scope'], { role, task, groupId }: Trajectory): string {
  if (scope === 'group') return JSON.stringify([groupId]);
  if (scope === 'role_task') return JSON.stringify([role, task]);
  return scope === 'role' ? JSON.stringify([role]) : 'batch';
}
