import { onAbort, untilAborted } from '../core/abort.ts';
import { TimeoutError } from '../core/errors.ts';
import { LONGEST_TIMER_MS } from '../core/timers.ts';

/** Names of the options that set a run's deadlines, as the user knows them: `--timeout`, `rollouts.timeout_s`. */
export interface TimeoutNames {
  readonly rollout: string;
  readonly scoring: string;
}

export const TIMEOUT_NAMES: TimeoutNames = { rollout: 'timeoutMs', scoring: 'scoringTimeoutMs' };

export interface Deadline {
  /** Milliseconds; null sets none. */
  readonly timeoutMs: number | null;
  /** The event that did not happen in time, as the beginning of a sentence: `The rollout did not end`. */
  readonly what: string;
  /** The option that sets it. */
  readonly option: string;
  /** Milliseconds of the deadline that were spent before. @default 0 */
  readonly spentMs?: number;
  /** The event that the run was waiting for, as a clause: `the policy was writing`. @default left out of the error */
  readonly awaited?: () => string | null;
}

/** A signal that aborts with the run's, and with a TimeoutError once the deadline has passed. Disposing releases the timer and the listener. */
export function deadlineOf(deadline: Deadline, runSignal: AbortSignal): Disposable & { readonly signal: AbortSignal } {
  const { timeoutMs, spentMs = 0, awaited } = deadline;
  const controller = new AbortController();
  const listening = onAbort(runSignal, () => controller.abort(runSignal.reason));
  const late = () => controller.abort(deadlinePassed(deadline, awaited?.() ?? null));
  const timer = timeoutMs === null ? undefined : setTimeout(late, Math.min(Math.max(0, timeoutMs - spentMs), LONGEST_TIMER_MS));
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      clearTimeout(timer);
      listening[Symbol.dispose]();
    },
  };
}

/** @param awaited as in `Deadline` */
export function deadlinePassed({ what, option, timeoutMs }: Deadline, awaited: string | null): TimeoutError {
  const clause = awaited === null ? '' : `: ${awaited}`;
  return new TimeoutError(`${what} within ${timeoutMs! / 1000} s${clause}. Raise ${option} if it needs more time.`);
}

/** Settles as `work` does, or rejects with a TimeoutError after `ms` milliseconds; the outcome of the work is then ignored. */
export async function withinMs<T>(ms: number, work: () => Promise<T>): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new TimeoutError(`The clean-up of the episode did not end within ${ms / 1000} s`)), ms);
  try {
    return await untilAborted(work(), late.signal);
  } finally {
    clearTimeout(timer);
  }
}
