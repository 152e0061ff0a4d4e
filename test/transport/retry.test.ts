import { describe, expect, test } from 'vitest';
import { CancelledError, PolicyError, TimeoutError, type VfError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { RateLimit } from '../../src/transport/rate-limit.ts';
import { type RetryOptions, withRetries } from '../../src/transport/retry.ts';
import { withTransport } from '../../src/transport/transport-settings.ts';
import { WaitMeter } from '../../src/transport/wait-meter.ts';

const options = (more: Partial<RetryOptions> = {}): RetryOptions => ({
  signal: new AbortController().signal,
  timeoutMs: 5000,
  maxRetries: 3,
  random: Random.fromSeed(1),
  baseDelayMs: 1,
  maxDelayMs: 4,
  ...more,
});
const flaky = (message: string, more = {}) => new PolicyError(message, { retryable: true, ...more });

/** Fails with each error in turn, then succeeds. */
function failing(...errors: unknown[]): { call: () => Promise<string>; calls: () => number } {
  let calls = 0;
  const call = async () => {
    const error = errors[calls++];
    if (error !== undefined) throw error;
    return 'done';
  };
  return { call, calls: () => calls };
}

describe('withRetries', () => {
  test('retries retryable failures until one attempt succeeds', async () => {
    const seen: string[] = [];
    const { call, calls } = failing(flaky('one'), flaky('two'));
    const onRetry = (e: { attempt: number; error: VfError }) => seen.push(`${e.attempt} ${e.error.message}`);
    await expect(withRetries(call, options({ onRetry }))).resolves.toBe('done');
    expect(calls()).toBe(3);
    expect(seen).toEqual(['1 one', '2 two']);
  });

  test('throws the last failure itself once no retry is left', async () => {
    const last = flaky('two');
    const { call, calls } = failing(flaky('one'), last, flaky('three'));
    await expect(withRetries(call, options({ maxRetries: 1 }))).rejects.toBe(last);
    expect(calls()).toBe(2);
  });

  test.each([new PolicyError('401'), new TypeError('a bug')])('passes %s on at once', async (error) => {
    const { call, calls } = failing(error);
    await expect(withRetries(call, options())).rejects.toBe(error);
    expect(calls()).toBe(1);
  });

  test('doubles its delays up to the maximum, each at least half of its ceiling', async () => {
    const delays: number[] = [];
    const { call } = failing(flaky('1'), flaky('2'), flaky('3'), flaky('4'));
    await withRetries(call, options({ maxRetries: 4, onRetry: (e) => delays.push(e.delayMs) }));
    const ceilings = [1, 2, 4, 4];
    expect(delays).toHaveLength(4);
    delays.forEach((delay, i) => {
      expect(delay).toBeGreaterThanOrEqual(ceilings[i]! / 2);
      expect(delay).toBeLessThanOrEqual(ceilings[i]!);
    });
  });

  test('waits at least as long as the other side asked', async () => {
    const delays: number[] = [];
    const { call } = failing(flaky('429', { retryAfterMs: 20 }));
    const started = performance.now();
    await withRetries(call, options({ onRetry: (e) => delays.push(e.delayMs) }));
    expect(delays[0]).toBeGreaterThanOrEqual(20);
    expect(performance.now() - started).toBeGreaterThanOrEqual(19);
  });

  test('passes a failure on when the other side asks for more patience than allowed', async () => {
    const { call, calls } = failing(flaky('429', { retryAfterMs: 3_600_000 }));
    await expect(withTransport({ maxWaitMs: 60_000 }, () => withRetries(call, options()))).rejects.toThrow('429');
    expect(calls()).toBe(1);
  });

  test.each([{ status: 429 }, { status: 529 }, { status: 503, retryAfterMs: 1 }])(
    'a refusal for a rate limit uses up no retry: %j',
    async (limit) => {
      const { call, calls } = failing(...Array.from({ length: 9 }, () => flaky('slow down', limit)));
      await expect(withRetries(call, options({ maxRetries: 0 }))).resolves.toBe('done');
      expect(calls()).toBe(10);
    },
  );

  test('a limit outlasts the longest wait: the failure says so and ends a run that nothing else answers', async () => {
    const call = () => Promise.reject(flaky('slow down', { status: 429 }));
    const rateLimit = new RateLimit();
    const waiting = () => withTransport({ maxWaitMs: 10 }, () => withRetries(call, options({ rateLimit })));
    const [one, other] = await Promise.allSettled([waiting(), waiting()]);
    const failure = {
      endsRun: true,
      isRetriedOut: true,
      status: 429,
      message: 'slow down. It went on refusing, and maxWaitMs allows 0.01 s. Lower maxConcurrent, or raise maxWaitMs.',
    };
    expect([one, other]).toMatchObject([{ reason: failure }, { reason: failure }]);
    expect((one as PromiseRejectedResult).reason).toBeInstanceOf(PolicyError);
  });

  test('a server that asks for a longer wait than allowed is not waited for, neither by those that were refused nor by others', async () => {
    const rateLimit = new RateLimit();
    const { call, calls } = failing(flaky('daily limit', { status: 429, retryAfterMs: 86_400_000 }));
    const ask = () => withRetries(call, options({ rateLimit }));
    await expect(ask()).rejects.toMatchObject({
      endsRun: true,
      message: expect.stringContaining('asks for a wait of 86400 s, and maxWaitMs allows 3600 s'),
    });
    await expect(ask()).rejects.toThrow('daily limit');
    expect(calls()).toBe(1);
  });

  test('measures the time that a run waited for a rate limit', async () => {
    const waits = new WaitMeter();
    const { call } = failing(flaky('slow down', { status: 429, retryAfterMs: 20 }));
    await withTransport({ waits }, () => withRetries(call, options()));
    expect(waits.totalMs).toBeGreaterThanOrEqual(19);
    expect(waits.waiting).toBe(0);
  });

  test('an attempt that ignores its signal still ends at the deadline, and is retried', async () => {
    const reasons: unknown[] = [];
    let calls = 0;
    const call = (signal: AbortSignal) => {
      if (++calls > 1) return Promise.resolve('done');
      signal.addEventListener('abort', () => reasons.push(signal.reason));
      return new Promise<string>(() => {});
    };
    await expect(withRetries(call, options({ timeoutMs: 10 }))).resolves.toBe('done');
    expect(reasons).toHaveLength(1);
    expect(reasons[0]).toBeInstanceOf(TimeoutError);
  });

  test('throws TimeoutError when every attempt is late', async () => {
    const error = await withRetries(() => new Promise(() => {}), options({ timeoutMs: 5, maxRetries: 1 })).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(TimeoutError);
    expect((error as TimeoutError).message).toContain('within 5 ms');
  });

  test('cancels a running attempt, and the attempt learns of it', async () => {
    const controller = new AbortController();
    let inner: AbortSignal | undefined;
    const waiting = withRetries((signal) => new Promise(() => (inner = signal)), options({ signal: controller.signal }));
    controller.abort(new Error('Ctrl-C'));
    await expect(waiting).rejects.toThrow(CancelledError);
    expect(inner?.aborted).toBe(true);
  });

  test('cancels the pause between attempts', async () => {
    const controller = new AbortController();
    const { call, calls } = failing(flaky('down'));
    const onRetry = () => queueMicrotask(() => controller.abort());
    await expect(withRetries(call, options({ signal: controller.signal, baseDelayMs: 60_000, maxDelayMs: 60_000, onRetry }))).rejects.toThrow(
      CancelledError,
    );
    expect(calls()).toBe(1);
  });

  test('makes no attempt when the signal is aborted already', async () => {
    const { call, calls } = failing();
    await expect(withRetries(call, options({ signal: AbortSignal.abort() }))).rejects.toThrow(CancelledError);
    expect(calls()).toBe(0);
  });

  test.each([Infinity, 2 ** 40])('a deadline of %s ms does not fire at once', async (timeoutMs) => {
    let attempts = 0;
    const call = () => new Promise((resolve) => setTimeout(() => resolve(++attempts), 5));
    await expect(withRetries(call, options({ timeoutMs }))).resolves.toBe(1);
  });
});
