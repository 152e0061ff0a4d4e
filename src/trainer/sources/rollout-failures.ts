/** Kinds of failed rollouts, which determine what is sampled again, and the messages about them. */
import { TrainingError } from '../../core/errors.ts';
import { thrownPlace } from '../../core/thrown-place.ts';
import { moduleFault } from '../../core/module-fault.ts';
import { BUGS, type RolloutError } from '../../rollouts/rollout.ts';
import type { TrainingEvent } from '../training-observer.ts';
import { isUnplayed, type Trajectory } from '../trajectory.ts';

/** A failure that was read from a file has no stack. */
export type Failure = NonNullable<Trajectory['error']> & Pick<RolloutError, 'stack' | 'isOfCode'> & Partial<Pick<Trajectory, 'turns'>>;

/** Waiting for the server does not cure a fault in the code that calls it. */
const isClients = ({ source, type }: Failure) => source === 'policy' && BUGS.includes(type);
export const isPolicys = (failure: Failure) => failure.source === 'policy' && !isClients(failure);
/** A deadline may have passed because the machine was busy. */
const isLate = ({ type }: Failure) => type === 'TimeoutError';
/** The same fails again: the code of the reward or of the policy's client cannot handle the text, or the environment's code returns what it must not. */
export const isCodes = (failure: Failure) =>
  isClients(failure) || failure.isOfCode === true || (failure.source === 'reward' && !failure.retryable && !isLate(failure));
/** Which rollouts a judge's server could not score does not depend on their texts. Whether an episode calls a model may depend on it. */
const isOutage = ({ source, retryable, phase }: Failure) => (source === 'reward' || source === 'model') && retryable && phase === 'scoring';
/**
 * Whether such a rollout fails may depend on the text that the policy wrote. If only the failed ones were played again until none fails, the batch would hold too
 * few of the texts that fail.
 */
export const isOfText = (failure: Failure) => (failure.source === 'reward' || failure.source === 'model') && !failure.retryable;

/**
 * True if too many failures make the rest a biased sample. The rollouts that a broken environment lets finish are biased: without a retriever, they are those that
 * never search. The rollouts that a reward scores within its deadline are biased too: they are the short ones.
 */
export function isWhole(failures: readonly Failure[], allowed: number): boolean {
  const others = failures.filter((failure) => !isOfText(failure));
  const isFair = failures.length - others.length <= allowed;
  return !isFair || !(failures.some(isPolicys) || others.every(isOutage));
}

/** What only the process that played a rollout knows of its failure. */
export type KnownOfFailure = Pick<RolloutError, 'stack' | 'isOfCode'>;

/** The failed ones among the latest rollouts, without those that were not played, with what is known of those that this process played. */
export function failuresIn(
  latest: ReadonlyMap<string, Trajectory>,
  known: ReadonlyMap<string, KnownOfFailure> = new Map(),
): (Failure & Pick<Trajectory, 'rolloutId'>)[] {
  return [...latest.values()].flatMap((trajectory) => {
    const { rolloutId, error, turns } = trajectory;
    return error === null || isUnplayed(trajectory) ? [] : { ...error, ...known.get(rolloutId), turns, rolloutId };
  });
}

/** What a server that is down or busy leaves in an error of code that asked it. */
const OF_MOMENT =
  /connect|socket|network|fetch|tim(e|ed)[ -]?out|unavailable|too many|rate limit|overloaded|busy|ECONN|EAI_|EPIPE|ENOSPC|ENOMEM|EMFILE|\b(429|5\d\d)\b/i;
const FAULT = /^(?:caused by )?(TypeError|ReferenceError|RangeError|SyntaxError)\b/m;

/**
 * True for a failure that does not depend on the moment: a fault in the code of the environment or the agent, requests that the policy can never honour, a program that asks
 * nothing. In the first step, in which nothing has worked before, it is also true of an agent or environment that ends before the policy's first turn.
 */
function isLasting({ source, type, retryable, reason, message, stack = '', turns }: Failure, isFirst: boolean): boolean {
  if (source !== 'environment' || retryable || (type !== 'EnvironmentError' && type !== 'AgentError')) return false;
  if (OF_MOMENT.test(message) || OF_MOMENT.test(stack.replaceAll(/^[ \t].*$/gm, ''))) return false;
  return reason === 'no_call' || reason === 'refused' || FAULT.test(stack) || (isFirst && turns === 0);
}

/** Ids, numbers and places may differ in the same failure. */
const kindOf = ({ type, message }: Failure) => `${type} ${message.replaceAll(/\d+/g, '0')}`;

/**
 * The error that ends the run because every rollout failed in the same way, in which further attempts would fail too; null if there is none.
 * @param latest of all rollouts of the plan that were played, and the failed ones among them
 * @param module path or name of the environment
 */
export function lastingFault(
  plan: Placed,
  {
    played,
    failures,
    total,
    attempt,
  }: { readonly played: number; readonly failures: readonly Failure[]; readonly total: number; readonly attempt: number },
  module: string,
): TrainingError | null {
  const [first] = failures;
  // One rollout may have failed for its row or its text.
  const areEnough = failures.length >= Math.min(2, total) || attempt > 1;
  if (first === undefined || failures.length < played || !areEnough) return null;
  const areSame = failures.every((failure) => isLasting(failure, plan.step <= 1) && kindOf(failure) === kindOf(first));
  if (!areSame) return null;
  const text = failureText(failures, { played, total, judgement: ' in the same way' });
  return moduleFault(
    `Stopped at ${placeOf(plan)}: ${sentence(text)} Further attempts would fail too. Correct the cause, then continue this run with -R`,
    module,
    undefined,
    failures.length,
  );
}

/** `played` is below `total` if the attempt ended early because too many had failed. */
export function failureText(
  failures: readonly Failure[],
  { played, total, judgement = '' }: { readonly played: number; readonly total: number; readonly judgement?: string },
): string {
  const [first] = failures;
  const rollouts = played < total ? 'rollouts played so far' : 'rollouts';
  return `${failures.length} of ${played} ${rollouts} failed${judgement}; the first: ${first?.type}: ${first?.message}${placeText(first)}`;
}

export interface PlayedCheck {
  /** Of the rollouts, for people: `step 3`. */
  readonly place: string;
  /** The number that may stay unplayed without an alarm. */
  readonly allowed: number;
  /** @default false: the run stops if none was played */
  readonly mayBeNone?: boolean;
  readonly report: (event: Omit<TrainingEvent, 'step'>) => void;
}

/** Reports rollouts that were not played, if they are many. Throws TrainingError if they are all. */
export function checkPlayed(trajectories: readonly Trajectory[], { place, allowed, mayBeNone = false, report }: PlayedCheck): void {
  const unplayed = trajectories.filter(isUnplayed);
  const [first] = unplayed;
  if (first === undefined) return;
  const isAll = unplayed.length === trajectories.length;
  if (!isAll && unplayed.length <= allowed) return;
  const count = isAll ? `None of the ${unplayed.length} rollouts could be` : `${unplayed.length} of ${trajectories.length} rollouts could not be`;
  const text = sentence(`${count} played; the first, ${first.rolloutId}: ${first.error!.message}`);
  if (isAll && !mayBeNone)
    throw new TrainingError(`Stopped at ${place}: ${text} Then continue this run with -R`, { failedRollouts: unplayed.length });
  report({ kind: 'alarm', message: `${text} They have no reward and take no part` });
}

/** ` at /home/me/environment.ts:12:5`, where the environment's own code threw. */
function placeText(failure: Failure | undefined): string {
  const place = failure?.type === 'EnvironmentError' ? thrownPlace(failure.stack) : null;
  return place === null ? '' : ` ${place}`;
}

/** The text with a full stop at its end. */
export function sentence(text: string): string {
  return text.endsWith('.') ? text : `${text}.`;
}

/** A plan, as messages name it. */
interface Named {
  readonly isEvaluation?: boolean;
  /** Set for a group of a stream. */
  readonly allowedFailures?: () => number;
}

export function repeatKind({ isEvaluation = false }: Named): 'evaluation_repeated' | 'step_repeated' {
  return isEvaluation ? 'evaluation_repeated' : 'step_repeated';
}

export function wholeOf({ isEvaluation = false, allowedFailures: ofGroup }: Named): string {
  if (isEvaluation) return 'evaluation';
  return ofGroup === undefined ? 'step' : 'group';
}

interface Placed extends Named {
  readonly step: number;
  readonly rows: readonly { readonly exampleId: unknown }[];
}

export function placeOf({ step, isEvaluation = false, rows, allowedFailures: ofGroup }: Placed): string {
  if (isEvaluation) return `the evaluation at step ${step}`;
  return ofGroup === undefined ? `step ${step}` : `the group of row ${String(rows[0]?.exampleId)}`;
}

/** @param module path or name of the environment */
export function codeText(plan: Placed, failure: Failure & Pick<Trajectory, 'rolloutId'>, module: string): string {
  const { rolloutId, type, message, stack, isOfCode = false } = failure;
  const isOfClient = isClients(failure);
  // What was returned was found here, not where it was written.
  const isCaused = stack?.includes('\ncaused by ') === true;
  const place = isOfCode || !(isOfClient || isCaused) ? null : thrownPlace(stack);
  const text = isOfClient ? `the policy's client met a fault in its code, not an outage: ${type}: ${message}` : message;
  const remedy = isOfCode
    ? `Correct the environment (${module})`
    : isOfClient
      ? 'Correct what it was given, or report the fault'
      : 'Correct the reward';
  return `Stopped at ${placeOf(plan)}, rollout ${rolloutId}: ${sentence(`${text}${place === null ? '' : ` ${place}`}`)} ${remedy}, then continue this run with -R`;
}
