/**
 * The retry policy of every remote call: a deadline per attempt, exponential back-off with jitter, Retry-After, rate limits, cancellation at any time.
 * `VfError.retryable` decides which failures are retried.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { cancelled, onAbort, throwIfAborted, untilAborted } from '../core/abort.ts';
import { ModelError, TimeoutError, VfError, type VfErrorOptions } from '../core/errors.ts';
import type { Random } from '../core/random.ts';
import { timerMs } from '../core/timers.ts';
import { type EnterOptions, RateLimit, WaitTooLong } from './rate-limit.ts';
import { transportSettings } from './transport-settings.ts';
import type { WaitMeter } from './wait-meter.ts';

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
  /** The server's rate limit, which holds back all requests to it. @default one of this call's own */
  readonly rateLimit?: RateLimit;
  /** Tells whether to retry after this retryable failure; false throws it at once. @default always */
  readonly mayRetry?: (error: VfError) => boolean;
  /** The longest wait for the server's rate limit. @default that of the transport's settings */
  readonly maxWaitMs?: number;
  /** Called when the call begins to wait for a rate limit; the result is disposed when the wait ends. */
  readonly onWait?: () => Disposable;
  /** Called before each wait, for a retry or for a rate limit. */
  readonly onRetry?: (event: { attempt: number; delayMs: number; error: VfError }) => void;
}

/**
 * Calls until an attempt succeeds, fails with an error that is not retryable, or no retry is left; the last error is then thrown, marked
 * `isRetriedOut`. An attempt that exceeds its deadline fails with a retryable TimeoutError, even if `call` ignores its signal. A refusal for a rate limit
 * (`isRateLimited`) uses up no retry: it holds back all requests to the server, within `maxWaitMs`. Throws CancelledError as
 * soon as `signal` aborts.
 */
export async function withRetries<T>(call: (signal: AbortSignal) => Promise<T>, options: RetryOptions): Promise<T> {
  const { signal, maxRetries, mayRetry = () => true } = options;
  const attemptInTurn = inTurn(call, options);
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptInTurn();
    } catch (error) {
      if (!(error instanceof VfError) || !error.retryable || !mayRetry(error)) throw error;
      if (attempt > maxRetries || (error.retryAfterMs ?? 0) > LONGEST_ABSENCE_MS) {
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

/** A server that is away for longer than this, by its own words, is an outage and no rate limit. (The openai package waits as long.) */
const LONGEST_ABSENCE_MS = 60_000;

/** True for a refusal that says nothing about the request: 429, 529 (overloaded) and a 503 that names a short time. */
function isRateLimited({ status, retryable, retryAfterMs }: VfError): boolean {
  return retryable && (status === 429 || status === 529 || (status === 503 && retryAfterMs !== null && retryAfterMs <= LONGEST_ABSENCE_MS));
}

/** The server exists, but cannot answer now. */
export function isBusy({ status, retryable }: VfError): boolean {
  return status !== null && (retryable || status === 429 || status === 529 || status === 503);
}

/** An attempt that waits for the server's rate limit before it is made, and is made again after a refusal. */
function inTurn<T>(call: (signal: AbortSignal) => Promise<T>, options: RetryOptions): () => Promise<T> {
  const { signal, timeoutMs, random, baseDelayMs = 500, rateLimit = new RateLimit(), mayRetry = () => true } = options;
  const { waits, maxWaitMs: ofTransport } = transportSettings();
  const { maxWaitMs = ofTransport } = options;
  return async () => {
    let sinceMs = performance.now();
    for (let refusals = 0; ;) {
      const passage =
        rateLimit.enterAtOnce() ??
        (await entered(
          rateLimit,
          { signal, maxWaitMs, sinceMs, goesFirst: refusals > 0 },
          { waits, ...(options.onWait && { onWait: options.onWait }) },
        ));
      try {
        const result = await attemptOnce(call, signal, timeoutMs);
        passage.answered();
        return result;
      } catch (error) {
        if (!(error instanceof VfError) || !isRateLimited(error)) {
          if (error instanceof VfError && error.status !== null) passage.answered();
          else passage.ended();
          throw error;
        }
        passage.refused({ error, baseDelayMs, random });
        if (!mayRetry(error)) throw error;
        refusals += 1;
        if (refusals === 1) sinceMs = performance.now();
        // Others may be answered meanwhile, but this one never is.
        if (performance.now() - sinceMs >= maxWaitMs) throw waitTooLong(rateLimit, { sinceMs, maxWaitMs });
        options.onRetry?.({ attempt: refusals, delayMs: error.retryAfterMs ?? 0, error });
      }
    }
  };
}

async function entered(rateLimit: RateLimit, options: EnterOptions, { waits, onWait }: { readonly waits: WaitMeter } & Pick<RetryOptions, 'onWait'>) {
  using _ = waits.begin(onWait?.());
  try {
    return await rateLimit.enter(options);
  } catch (error) {
    throw error instanceof WaitTooLong ? waitTooLong(rateLimit, options) : error;
  }
}

/** The failure of a request that may not wait any longer. If nothing else was answered either, it ends the run. */
function waitTooLong(rateLimit: RateLimit, { sinceMs, maxWaitMs }: Pick<EnterOptions, 'sinceMs' | 'maxWaitMs'>): VfError {
  const { names } = transportSettings();
  const refusal = rateLimit.lastRefusal!;
  const { message, status, retryAfterMs } = refusal;
  const asked = retryAfterMs !== null && retryAfterMs > maxWaitMs ? `It asks for a wait of ${secondsText(retryAfterMs)}` : 'It went on refusing';
  const text = `${message.replace(/\.$/, '')}. ${asked}, and ${names.maxWait} allows ${secondsText(maxWaitMs)}. Lower ${names.maxConcurrent}, or raise ${names.maxWait}.`;
  const Failure = refusal.constructor as new (text: string, options: VfErrorOptions & { readonly role?: unknown }) => VfError;
  const role = refusal instanceof ModelError ? { role: refusal.role } : {};
  const failure = new Failure(text, {
    cause: refusal,
    endsRun: rateLimit.answeredAtMs < sinceMs,
    ...(status !== null && { status }),
    ...(retryAfterMs !== null && { retryAfterMs }),
    ...role,
  });
  failure.isRetriedOut = true;
  return failure;
}

function secondsText(ms: number): string {
  return `${ms < 10_000 ? Number((ms / 1000).toPrecision(2)) : Math.round(ms / 1000)} s`;
}

async function attemptOnce<T>(call: (signal: AbortSignal) => Promise<T>, outer: AbortSignal, timeoutMs: number): Promise<T> {
  throwIfAborted(outer);
  const controller = new AbortController();
  const tooLate = `There was no answer within ${timeoutMs} ms. Raise the timeout or lower the load.`;
  const late = () => controller.abort(new TimeoutError(tooLate, { retryable: true }));
  const timer = timeoutMs === Infinity ? undefined : setTimeout(late, timerMs(timeoutMs));
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
