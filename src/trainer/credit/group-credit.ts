/**
 * Compares the rollouts of a row with each other (GRPO, Dr. GRPO, RLOO). A group with fewer than two members gives no advantage and is left out. Where branches have rewards of their
 * own, each is compared with the branches of the same role of the row's rollouts, each of which counts once.
 */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import type { Trajectory } from '../trajectory.ts';
import type { Credit, CreditAssignment, CreditBatch, CreditRollout } from '../credit.ts';
import { hasBranchRewards } from '../trajectory-branches.ts';
import { type CreditPart, PartAdvantages, populations, rolloutsIn } from './credit-parts.ts';
import { type GroupAdvantages, memberAdvantages } from './group-advantages.ts';

export type CreditConfig = Pick<TrainingConfig, 'algorithm' | 'rollouts'>;

export function groupCredit({ algorithm }: CreditConfig): Credit {
  return { needs: { penalties: true }, assign: (batch) => compared(batch, algorithm) };
}

function compared({ groups, failed }: CreditBatch, algorithm: CreditConfig['algorithm']): CreditAssignment {
  const advantages = new PartAdvantages();
  const deviations: number[] = [];
  let [comparable, constant] = [0, 0];
  for (const members of groups) {
    const own = rolePopulations(members).map((parts) => ({ parts, ...partAdvantages(parts, algorithm) }));
    if (own.length === 0) continue;
    comparable++;
    deviations.push(...own.map(({ std }) => std));
    if (own.every(({ isConstant }) => isConstant)) constant++;
    for (const { parts, isConstant, advantages: found } of own)
      if (!isConstant || algorithm.constantGroups === 'keep') parts.forEach((part, i) => advantages.set(part, found[i]!));
  }
  const played = new Set([...groups.flat().map(({ trajectory }) => trajectory), ...failed].map(({ groupId }) => groupId)).size;
  return {
    advantages: groups.map((members) => members.map((member) => advantages.of(member))),
    values: {
      group_reward_std: meanOrNull(deviations),
      groups: comparable,
      groups_constant: constant,
      groups_too_small: played - comparable,
    },
    constantReason: 'no group has two finished rollouts with different rewards',
  };
}

/** The whole rollouts; if a branch has a reward of its own, the branches of each role. What only one rollout has is compared with nothing. */
function rolePopulations(members: readonly CreditRollout[]): readonly (readonly CreditPart[])[] {
  const isByRole = members.some(({ trajectory }) => hasBranchRewards(trajectory));
  const found = populations(
    members,
    () => isByRole,
    ({ role }) => (isByRole ? role : ''),
  );
  return [...found.values()].filter((parts) => rolloutsIn(parts) >= 2);
}

function partAdvantages(parts: readonly CreditPart[], { advantage }: CreditConfig['algorithm']): GroupAdvantages {
  const members = [...Map.groupBy(parts, ({ rollout }) => rollout).values()];
  return memberAdvantages(
    members.map((own) => own.map(penalised)),
    { ...advantage, singleton: 'zero' },
  );
}

/** The reward without the penalties of all tokens. */
function penalised({ reward, penalties }: Pick<CreditRollout, 'reward' | 'penalties'>): number {
  return reward - (penalties?.reduce((total, value) => total + value, 0) ?? 0);
}

export function meanOrNull(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((total, value) => total + value, 0) / values.length;
}

/** The scope that a trajectory is compared in. */
export function scopeKey(
  scope: CreditConfig['algorithm']['advantage']['scope'],
  { role, task, groupId }: Pick<Trajectory, 'role' | 'task' | 'groupId'>,
): string {
  if (scope === 'group') return JSON.stringify([groupId]);
  if (scope === 'role_task') return JSON.stringify([role, task]);
  return scope === 'role' ? JSON.stringify([role]) : 'batch';
}
