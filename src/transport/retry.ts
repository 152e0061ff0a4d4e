/**
 * One policy for every remote call: a deadline per attempt, exponential back-off with jitter, Retry-After honoured, cancellation at any
 * moment. Which failures may be retried is decided where they are classified: `VfError.retryable`.
 */
import { CancelledError, TimeoutError, VfError } from '../core/errors.ts';
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
      await sleep(delayMs, signal);
    }
  }
}

function attemptOnce<T>(call: (signal: AbortSignal) => Promise<T>, outer: AbortSignal, timeoutMs: number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (outer.aborted) return reject(cancelled(outer));
    const controller = new AbortController();
    const end = (reason: VfError) => {
      settle();
      reject(reason);
      controller.abort(reason);
    };
    const abort = () => end(cancelled(outer));
    const late = () => end(new TimeoutError(`There was no answer within ${timeoutMs} ms. Raise the timeout or lower the load.`, { retryable: true }));
    const timer = timeoutMs === Infinity ? undefined : setTimeout(late, Math.min(timeoutMs, LONGEST_TIMER_MS));
    const settle = () => {
      clearTimeout(timer);
      outer.removeEventListener('abort', abort);
    };
    outer.addEventListener('abort', abort, { once: true });
    void (async () => call(controller.signal))().then(resolve, reject).finally(settle);
  });
}

/** Half fixed, half drawn ("equal jitter"), so that many callers spread out and none hurries. Never shorter than Retry-After. */
function backOffMs(attempt: number, error: VfError, { random, baseDelayMs = 500, maxDelayMs = 8000 }: RetryOptions): number {
  const ceiling = Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1));
  const jittered = ceiling / 2 + (random.float() * ceiling) / 2;
  return error.retryAfterMs === null ? jittered : error.retryAfterMs + jittered / 4;
}

function sleep(delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(cancelled(signal));
    const abort = () => {
      clearTimeout(timer);
      reject(cancelled(signal));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    }, delayMs);
    signal.addEventListener('abort', abort, { once: true });
  });
}

function cancelled(signal: AbortSignal): CancelledError {
  return new CancelledError('Stopped before the other side answered', { cause: signal.reason });
}
