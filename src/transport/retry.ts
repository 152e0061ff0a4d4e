/**
 * The retry policy of every remote call: a deadline per attempt, exponential back-off with jitter, Retry-After, cancellation at any time.
 * `VfError.retryable` decides which failures are retried.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { cancelled, onAbort, throwIfAborted, untilAborted } from '../core/abort.ts';
import { TimeoutError, VfError } from '../core/errors.ts';
import type { Random } from '../core/random.ts';
import { LONGEST_TIMER_MS } from '../core/timers.ts';

export interface RetryOptions {
  readonly signal: AbortSignal;
  /** Deadline of one attempt. `Infinity` sets none. */
  readonly timeoutMs: number;
  /** Attempts after the first. */
  readonly maxRetries: number;
  /** Source of the jitter. */
  readonly random: Random;
  /** Delay before the first retry; doubles with each further one. @default 500 (the openai package) */
  readonly baseDelayMs?: number;
  /** Longest delay. @default 8000 (the openai package) */
  readonly maxDelayMs?: number;
  /** If Retry-After requests a longer wait, the failure is thrown at once. @default 60000 (the openai package) */
  readonly maxRetryAfterMs?: number;
  /** Tells whether to retry after this retryable failure; false throws it at once. @default always */
  readonly mayRetry?: (error: VfError) => boolean;
  readonly onRetry?: (event: { attempt: number; delayMs: number; error: VfError }) => void;
}

/**
 * Calls until an attempt succeeds, fails with an error that is not retryable, or no retry is left; the last error is then thrown, marked
 * `isRetriedOut`. An attempt that exceeds its deadline fails with a retryable TimeoutError, even if `call` ignores its signal. Throws CancelledError
 * as soon as `signal` aborts.
 */
export async function withRetries<T>(call: (signal: AbortSignal) => Promise<T>, options: RetryOptions): Promise<T> {
  const { signal, maxRetries, maxRetryAfterMs = 60_000, mayRetry = () => true } = options;
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOnce(call, signal, options.timeoutMs);
    } catch (error) {
      if (!(error instanceof VfError) || !error.retryable || !mayRetry(error)) throw error;
      if (attempt > maxRetries || (error.retryAfterMs ?? 0) > maxRetryAfterMs) {
        // Without a retry here, the caller may retry, except after a deadline, which has already waited long enough.
        if (attempt > 1 || error instanceof TimeoutError) error.isRetriedOut = true;
        throw error;
      }
      const delayMs = backOffMs(attempt, error, options);
      options.onRetry?.({ attempt, delayMs, error });
      await sleep(delayMs, undefined, { signal }).catch(() => {
        throw cancelled(signal);
      });
    }
  }
}

async function attemptOnce<T>(call: (signal: AbortSignal) => Promise<T>, outer: AbortSignal, timeoutMs: number): Promise<T> {
  throwIfAborted(outer);
  const controller = new AbortController();
  const tooLate = `There was no answer within ${timeoutMs} ms. Raise the timeout or lower the load.`;
  const late = () => controller.abort(new TimeoutError(tooLate, { retryable: true }));
  const timer = timeoutMs === Infinity ? undefined : setTimeout(late, Math.min(timeoutMs, LONGEST_TIMER_MS));
  using _ = onAbort(outer, () => controller.abort(cancelled(outer)));
  try {
    return await untilAborted(call(controller.signal), controller.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** Half fixed, half random ("equal jitter"), so that callers spread out but none retries at once. Never shorter than Retry-After. */
function backOffMs(attempt: number, error: VfError, { random, baseDelayMs = 500, maxDelayMs = 8000 }: RetryOptions): number {
  const ceiling = Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1));
  const jittered = ceiling / 2 + (random.float() * ceiling) / 2;
  return error.retryAfterMs === null ? jittered : error.retryAfterMs + jittered / 4;
}
