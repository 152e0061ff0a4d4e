import { TimeoutError } from '../core/errors.ts';
import { LONGEST_TIMER_MS } from '../core/timers.ts';

/**
 * The signal of a run, aborted with a TimeoutError as well once `timeoutMs` have passed. Once disposed it holds nothing of the run's.
 * @param what a sentence without its end: `The rollout did not end`
 */
export function deadlineOf(
  what: string,
  runSignal: AbortSignal,
  timeoutMs: number | null,
  /** `spentMs`: of the time, what had passed before. */
  { spentMs = 0 }: { readonly spentMs?: number } = {},
): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  const cancel = () => controller.abort(runSignal.reason);
  if (runSignal.aborted) cancel();
  else runSignal.addEventListener('abort', cancel, { once: true });
  const late = () => controller.abort(new TimeoutError(`${what} within ${timeoutMs! / 1000} s. Raise --timeout if a server is slow.`));
  const timer = timeoutMs === null ? undefined : setTimeout(late, Math.min(Math.max(0, timeoutMs - spentMs), LONGEST_TIMER_MS));
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      clearTimeout(timer);
      runSignal.removeEventListener('abort', cancel);
    },
  };
}
