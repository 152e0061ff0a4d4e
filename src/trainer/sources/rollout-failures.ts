/** Kinds of failed rollouts, which determine what is sampled again, and the messages about them. */
import type { RolloutError } from '../../rollouts/rollout.ts';
import type { Trajectory } from './trajectory.ts';

/** A failure that was read from a file has no stack. */
export type Failure = NonNullable<Trajectory['error']> & Pick<RolloutError, 'stack'>;

export const isPolicys = ({ source }: Failure) => source === 'policy';
/** A deadline may have passed because the machine was busy. */
const isLate = ({ type }: Failure) => type === 'TimeoutError';
/** The same text fails again: the reward's code does not cope with it. */
export const isRewards = (failure: Failure) => failure.source === 'reward' && !failure.retryable && !isLate(failure);
/** Which rollouts a judge's server could not score does not depend on what they say. Whether an episode calls a model may depend on it. */
export const isOutage = ({ source, retryable, phase }: Failure) => (source === 'reward' || source === 'model') && retryable && phase === 'scoring';
/** May depend on what the policy wrote. Playing such rollouts alone again, until none fails, would select by that. */
export const isOfText = (failure: Failure) => (failure.source === 'reward' || failure.source === 'model') && !failure.retryable;

/** `played` is below `total` if the attempt ended early because too many had failed. */
export function failureText(
  failures: readonly Failure[],
  { played, total, judgement = '' }: { readonly played: number; readonly total: number; readonly judgement?: string },
): string {
  const [first] = failures;
  const rollouts = played < total ? 'rollouts played so far' : 'rollouts';
  return `${failures.length} of ${played} ${rollouts} failed${judgement}; the first: ${first?.type}: ${first?.message}${placeText(first)}`;
}

/** ` at MyEnv.envResponse (/home/me/environment.ts:12:5)`, where the environment's own code threw. */
function placeText(failure: Failure | undefined): string {
  const place = failure?.type === 'EnvironmentError' ? innermostPlace(failure.stack) : null;
  return place === null ? '' : ` ${place}`;
}

/** The text with a full stop at its end. */
export function sentence(text: string): string {
  return text.endsWith('.') ? text : `${text}.`;
}

/** `at exact (/home/me/environment.ts:12:5)`: where the cause of an error was thrown; null if nothing caused it. */
export function throwingPlace(stack: string | undefined): string | null {
  return stack?.includes(CAUSED) === true ? innermostPlace(stack) : null;
}

const CAUSED = '\ncaused by ';

function innermostPlace(stack: string | undefined): string | null {
  const innermost = stack?.split(CAUSED).at(-1);
  return innermost === undefined ? null : (/^\s+(at .*)$/m.exec(innermost)?.[1] ?? null);
}
