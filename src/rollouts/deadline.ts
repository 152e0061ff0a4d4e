import { onAbort, untilAborted } from '../core/abort.ts';
import { TimeoutError } from '../core/errors.ts';
import { timerMs } from '../core/timers.ts';

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

/** A deadline under way. Disposing releases the timer and the listener. */
export interface RunningDeadline extends Disposable {
  /** Aborts with the run's signal, and with a TimeoutError once the deadline has passed. */
  readonly signal: AbortSignal;
  /** Milliseconds that count towards the deadline, those spent before included. */
  readonly spentMs: number;
  /** Stops the clock until the result is disposed, because something with a deadline of its own is awaited. Several holds may overlap. */
  hold(): Disposable;
}

export function deadlineOf(deadline: Deadline, runSignal: AbortSignal): RunningDeadline {
  const { timeoutMs, awaited } = deadline;
  const controller = new AbortController();
  const listening = onAbort(runSignal, () => controller.abort(runSignal.reason));
  const late = () => controller.abort(deadlinePassed(deadline, awaited?.() ?? null));
  let spentMs = deadline.spentMs ?? 0;
  let timer: NodeJS.Timeout | undefined;
  let runsSince: number | null = null;
  // Infinity once the deadline is disposed, so that the end of a hold does not start it again.
  let holds = 0;
  const start = () => {
    runsSince = performance.now();
    if (timeoutMs !== null) timer = setTimeout(late, timerMs(timeoutMs - spentMs));
  };
  const spent = () => spentMs + (runsSince === null ? 0 : performance.now() - runsSince);
  const stop = () => {
    clearTimeout(timer);
    spentMs = spent();
    runsSince = null;
  };
  start();
  return {
    signal: controller.signal,
    get spentMs() {
      return spent();
    },
    hold() {
      if (holds++ === 0) stop();
      return once(() => void (--holds === 0 && start()));
    },
    [Symbol.dispose]: () => {
      stop();
      holds = Infinity;
      listening[Symbol.dispose]();
    },
  };
}

/** Only the first disposal counts. */
function once(end: () => void): Disposable {
  let isOver = false;
  return {
    [Symbol.dispose]() {
      if (!isOver) end();
      isOver = true;
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
