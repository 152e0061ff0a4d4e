/** Why a batch has nothing to learn from, where its rewards say more than its credit. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { byGroup } from '../credit.ts';
import type { SkipReason } from '../skip-reason.ts';
import { isDemonstration, isFinished, isUnplayed, type Trajectory } from '../trajectory.ts';

/** @param reason of the update; one that is not about rewards stays */
export function batchReason(reason: SkipReason, trajectories: readonly Trajectory[], { scope, maxTokens = null }: Compared): SkipReason {
  const rollouts = trajectories.filter((each) => !isDemonstration(each));
  if (reason.kind !== 'constant' || rollouts.length === 0) return reason;
  const compared = (scope === 'group' ? byGroup(rollouts) : [rollouts]).map((members) => members.flatMap((each) => each.reward ?? []));
  const least = scope === 'none' ? 1 : 2;
  if (compared.every((rewards) => rewards.length < least)) return tooFew(rollouts, scope) ?? reason;
  const largest = compared
    .filter(overflows)
    .flat()
    .reduce((most, reward) => Math.max(most, Math.abs(reward)), 0);
  if (largest === 0) return cutShort(rollouts, maxTokens) ?? reason;
  return { kind: 'overflow', text: `the rewards reach ${largest.toPrecision(3)}, and their variance is not a finite number` };
}

interface Compared {
  readonly scope: Scope;
  /** `rollouts.max_tokens`. @default the environment's limit */
  readonly maxTokens?: number | null;
}

/** Rewards of texts without their end are often equal. Null unless at least half were cut short. */
function cutShort(rollouts: readonly Trajectory[], maxTokens: number | null): SkipReason | null {
  const finished = rollouts.filter(isFinished);
  const cut = finished.filter(({ isTruncated }) => isTruncated).length;
  if (cut === 0 || 2 * cut < finished.length) return null;
  const limit = maxTokens === null ? '' : ` (rollouts.max_tokens is ${maxTokens}; --max-tokens ${2 * maxTokens} doubles it)`;
  return {
    kind: 'cut',
    text: `${cut} of ${finished.length} rollouts were cut short by a length limit${limit}, and rewards within each group are equal`,
  };
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
