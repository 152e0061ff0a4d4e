/** Why a batch has nothing to learn from, where its rewards say more than its credit. */
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { byGroup } from '../credit.ts';
import { TURN_CREDIT } from '../credit/turn-credit.ts';
import type { SkipReason } from '../skip-reason.ts';
import { comparedRewards } from '../trajectory-branches.ts';
import { isDemonstration, isFinished, isUnplayed, type Trajectory } from '../trajectory.ts';

/** @param reason of the update; one that is not about rewards stays */
export function batchReason(reason: SkipReason, trajectories: readonly Trajectory[], compared: Compared): SkipReason {
  const found = rewardReason(reason, trajectories, compared);
  // The module knows more about its credit than the rewards show.
  return reason.isOwn !== true || found === reason ? found : { ...found, text: `${reason.text}; ${found.text}` };
}

function rewardReason(reason: SkipReason, trajectories: readonly Trajectory[], { scope, maxTokens = null, use = 'outcome' }: Compared): SkipReason {
  if (trajectories.length === 0) return { kind: 'empty', text: 'the source returned nothing to train on' };
  const rollouts = trajectories.filter((each) => !isDemonstration(each));
  if (reason.kind === 'not_finite') return tooLarge(rollouts) ?? reason;
  if (reason.kind === 'no_gradient' || reason.kind === 'too_small') return tooAlike(rollouts) ?? reason;
  if (reason.kind !== 'constant' || rollouts.length === 0) return reason;
  const compared = (scope === 'group' ? byGroup(rollouts) : [rollouts]).flatMap(comparedRewards);
  const least = scope === 'none' ? 1 : 2;
  if (compared.every((rewards) => rewards.length < least)) return tooFew(rollouts, scope) ?? reason;
  const largest = compared
    .filter(overflows)
    .flat()
    .reduce((most, reward) => Math.max(most, Math.abs(reward)), 0);
  if (largest === 0 && compared.some(differs))
    return use === 'outcome'
      ? reason
      : { kind: 'credit', text: `the credit ${use} gave every token the advantage 0, or left it out, although rewards differ` };
  if (largest === 0 && use === TURN_CREDIT && rollouts.every(isTurnless))
    return { kind: 'constant', text: 'no turn had a reward, and the rewards within each group are equal' };
  if (largest === 0) return cutShort(rollouts, maxTokens) ?? equalRewards(rollouts) ?? reason;
  return { kind: 'overflow', text: `the rewards reach ${largest.toPrecision(3)}, and their variance is not a finite number` };
}

interface Compared {
  readonly scope: Scope;
  /** `rollouts.max_tokens`. @default the environment's limit */
  readonly maxTokens?: number | null;
  /** `algorithm.advantage.use`. @default 'outcome' */
  readonly use?: string;
}

/** Null unless single precision, in which gradients are computed, cannot hold a reward. */
function tooLarge(rollouts: readonly Trajectory[]): SkipReason | null {
  const largest = rollouts.reduce((most, { reward }) => Math.max(most, Math.abs(reward ?? 0)), 0);
  if (Number.isFinite(Math.fround(largest))) return null;
  return { kind: 'overflow', text: `the rewards reach ${largest.toPrecision(3)}, and the gradient that they give is not finite` };
}

/** The window of the model, or the context of the environment, was full. */
const CROWDED = 'prompt_too_long';

/** Null unless the largest difference of rewards is lost where gradients are computed. */
function tooAlike(rollouts: readonly Trajectory[]): SkipReason | null {
  const rewards = rollouts.flatMap(({ reward }) => reward ?? []);
  const [least, most] = [Math.min(...rewards), Math.max(...rewards)];
  if (least === most || most - least > LEAST_DIFFERENCE) return null;
  return { kind: 'underflow', text: `the rewards differ by at most ${(most - least).toPrecision(3)}, which is too little to give a gradient` };
}

/** Far below the epsilon of every standard deviation. */
const LEAST_DIFFERENCE = 1e-20;

/** Rewards of texts without their end are often equal. Null unless at least half were cut short, or a quarter by a full window, and none of these was paid more than nothing while others ended. */
function cutShort(rollouts: readonly Trajectory[], maxTokens: number | null): SkipReason | null {
  const finished = rollouts.filter(isFinished);
  const cut = finished.filter(({ isTruncated }) => isTruncated).length;
  const crowded = finished.filter(({ stop }) => stop === CROWDED).length;
  const isCrowded = 2 * crowded >= cut;
  if (cut === 0 || (isCrowded ? 4 : 2) * cut < finished.length) return null;
  // What was paid without its end was not held back by the limit.
  if (cut < finished.length && finished.some(({ isTruncated, reward }) => isTruncated && reward! > 0)) return null;
  const text = (limit: string) =>
    `${cut} of ${finished.length} rollouts were cut short by a length limit${limit}, and rewards within each group are equal`;
  if (isCrowded) return { kind: 'window', text: text(` (${CROWDED} ${crowded}: no room was left for a further turn)`), plain: text('') };
  const limit = maxTokens === null ? '' : ` (rollouts.max_tokens is ${maxTokens}; --max-tokens ${2 * maxTokens} doubles it)`;
  return { kind: 'cut', text: text(limit), plain: text('') };
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

/** Null unless some were cut short, and all were paid the same. */
function equalRewards(rollouts: readonly Trajectory[]): SkipReason | null {
  const finished = rollouts.filter(isFinished);
  const [first] = finished;
  if (first === undefined || !finished.some(({ isTruncated }) => isTruncated) || first.reward === 0) return null;
  if (finished.some(({ reward }) => reward !== first.reward)) return null;
  return { kind: 'constant', text: `every reward was ${first.reward}, of rollouts that were cut short as of the others` };
}

function isTurnless({ turnRewards = [] }: Trajectory): boolean {
  return turnRewards.every((reward) => reward === null);
}

function differs(rewards: readonly number[]): boolean {
  return rewards.some((reward) => reward !== rewards[0]);
}

function overflows(rewards: readonly number[]): boolean {
  const mean = rewards.reduce((sum, reward) => sum + reward / rewards.length, 0);
  return !Number.isFinite(rewards.reduce((squares, reward) => squares + (reward - mean) ** 2, 0));
}
