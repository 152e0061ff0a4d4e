/**
 * One policy for every remote call: a deadline per attempt, exponential back-off with jitter, Retry-After honoured, cancellation at any
 * moment. Which failures may be retried is decided where they are classified: `VfError.retryable`.
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
  /** Attempts beyond the first. */
  readonly maxRetries: number;
  /** Draws the jitter. */
  readonly random: Random;
  /** Back-off before the first retry; it doubles with each further one. @default 500 (the openai package) */
  readonly baseDelayMs?: number;
  /** @default 8000 (the openai package) */
  readonly maxDelayMs?: number;
  /** A Retry-After beyond this is not waited for: the failure is passed on. @default 60000 (the openai package) */
  readonly maxRetryAfterMs?: number;
  readonly onRetry?: (event: { attempt: number; delayMs: number; error: VfError }) => void;
}

/**
 * Calls until an attempt succeeds, fails for good or no retry is left; then the last failure is thrown as it is, marked `isRetriedOut`. An attempt that passes its
 * deadline is a retryable TimeoutError, also when `call` ignores its signal. Throws CancelledError as soon as `signal` aborts.
 */
export async function withRetries<T>(call: (signal: AbortSignal) => Promise<T>, options: RetryOptions): Promise<T> {
  const { signal, maxRetries, maxRetryAfterMs = 60_000 } = options;
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOnce(call, signal, options.timeoutMs);
    } catch (error) {
      if (!(error instanceof VfError) || !error.retryable) throw error;
      if (attempt > maxRetries || (error.retryAfterMs ?? 0) > maxRetryAfterMs) {
        // A deadline is long enough by itself; other failures may deserve an attempt of the caller's where this one made none.
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

/** Half fixed, half drawn ("equal jitter"), so that many callers spread out and none hurries. Never shorter than Retry-After. */
function backOffMs(attempt: number, error: VfError, { random, baseDelayMs = 500, maxDelayMs = 8000 }: RetryOptions): number {
  const ceiling = Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1));
  const jittered = ceiling / 2 + (random.float() * ceiling) / 2;
  return error.retryAfterMs === null ? jittered : error.retryAfterMs + jittered / 4;
}
