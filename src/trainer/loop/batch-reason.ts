/** Why a batch has nothing to learn from, where its rewards say more than its credit. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { byGroup } from '../credit.ts';
import type { SkipReason } from '../skip-reason.ts';
import { isDemonstration, isUnplayed, type Trajectory } from '../trajectory.ts';

/** @param reason of the update; one that is not about rewards stays */
export function batchReason(reason: SkipReason, trajectories: readonly Trajectory[], scope: Scope): SkipReason {
  const rollouts = trajectories.filter((each) => !isDemonstration(each));
  if (reason.kind !== 'constant' || rollouts.length === 0) return reason;
  const compared = (scope === 'group' ? byGroup(rollouts) : [rollouts]).map((members) => members.flatMap((each) => each.reward ?? []));
  const least = scope === 'none' ? 1 : 2;
  if (compared.every((rewards) => rewards.length < least)) return tooFew(rollouts, scope) ?? reason;
  const largest = compared
    .filter(overflows)
    .flat()
    .reduce((most, reward) => Math.max(most, Math.abs(reward)), 0);
  if (largest === 0) return reason;
  return { kind: 'overflow', text: `the rewards reach ${largest.toPrecision(3)}, and their variance is not a finite number` };
}

type Scope = TrainingConfig['algorithm']['advantage']['scope'];

/** Null if none failed: a row is played once. */
function tooFew(rollouts: readonly Trajectory[], scope: Scope): SkipReason | null {
  const unplayed = rollouts.filter(isUnplayed).length;
  const failed = rollouts.filter(({ error }) => error !== null).length - unplayed;
  const total = rollouts.length;
  const counts = [...(failed > 0 ? [`${failed} of ${total} failed`] : []), ...(unplayed > 0 ? [`${unplayed} of ${total} could not be played`] : [])];
  if (counts.length === 0) return null;
  const none =
    failed + unplayed === total ? 'no rollout finished' : scope === 'group' ? 'no group has two finished rollouts' : 'too few rollouts finished';
  return { kind: unplayed > failed ? 'unplayed' : 'failed', text: `${none}: ${counts.join(', ')}` };
}

function overflows(rewards: readonly number[]): boolean {
  const mean = rewards.reduce((sum, reward) => sum + reward / rewards.length, 0);
  return !Number.isFinite(rewards.reduce((squares, reward) => squares + (reward - mean) ** 2, 0));
}
