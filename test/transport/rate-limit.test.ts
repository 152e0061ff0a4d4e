import { describe, expect, test } from 'vitest';
import { PolicyError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { RateLimit, WaitTooLong } from '../../src/transport/rate-limit.ts';
import { withRetries } from '../../src/transport/retry.ts';

const signal = new AbortController().signal;

/** A server of one process that grants `perWindow` requests every `windowMs`, and counts those that it refused. */
function bucket({
  perWindow,
  windowMs,
  atOnce = Infinity,
  retryAfterMs,
}: {
  perWindow: number;
  windowMs: number;
  atOnce?: number;
  retryAfterMs?: number;
}) {
  let times: number[] = [];
  let inFlight = 0;
  const seen = { granted: 0, refused: 0 };
  const call = async () => {
    const now = performance.now();
    times = times.filter((time) => now - time < windowMs);
    if (times.length >= perWindow || inFlight >= atOnce) {
      seen.refused += 1;
      throw new PolicyError('slow down', { status: 429, retryable: true, ...(retryAfterMs !== undefined && { retryAfterMs }) });
    }
    times.push(now);
    inFlight += 1;
    await new Promise((resolve) => setTimeout(resolve, 1));
    inFlight -= 1;
    seen.granted += 1;
  };
  return { call, seen };
}

async function play(count: number, call: () => Promise<void>): Promise<void> {
  const rateLimit = new RateLimit();
  const options = { signal, timeoutMs: 60_000, maxRetries: 0, random: Random.fromSeed(1), baseDelayMs: 4, rateLimit };
  await Promise.all(Array.from({ length: count }, () => withRetries(call, options)));
}

describe('RateLimit', () => {
  test.each([
    ['no wait is named', {}],
    ['the wait is named', { retryAfterMs: 20 }],
    ['the wait is named too short', { retryAfterMs: 0 }],
  ])('40 requests finish over a limit of 10 in 40 ms, with fewer refusals than requests held back: %s', async (_, more) => {
    const { call, seen } = bucket({ perWindow: 10, windowMs: 40, ...more });
    await play(40, call);
    expect(seen.granted).toBe(40);
    // The first burst is refused in part; afterwards each hold ends with one request that asks.
    expect(seen.refused).toBeLessThan(30 + 40);
  });

  test('a limit of requests in flight is found again after each refusal', async () => {
    const { call, seen } = bucket({ perWindow: Infinity, windowMs: 1, atOnce: 3 });
    await play(60, call);
    expect(seen.granted).toBe(60);
  });

  test('one refusal holds back requests that were not refused', async () => {
    const rateLimit = new RateLimit();
    const options = { signal, timeoutMs: 60_000, maxRetries: 0, random: Random.fromSeed(1), baseDelayMs: 1, rateLimit };
    const order: string[] = [];
    let isFirst = true;
    const refusedOnce = async () => {
      order.push('refused');
      if (!isFirst) return;
      isFirst = false;
      throw new PolicyError('slow down', { status: 429, retryable: true, retryAfterMs: 20 });
    };
    const first = withRetries(refusedOnce, options);
    await Promise.resolve();
    while (rateLimit.lastRefusal === null) await new Promise((resolve) => setImmediate(resolve));
    const other = withRetries(async () => void order.push('other'), options);
    await Promise.all([first, other]);
    expect(order).toEqual(['refused', 'refused', 'other']);
  });

  test('a refusal that asks for longer than is allowed ends the wait of all at once', async () => {
    const limit = new RateLimit();
    const began = performance.now();
    const random = Random.fromSeed(0);
    limit.enterAtOnce()!.refused({ error: new PolicyError('slow down', { status: 429, retryAfterMs: 1 }), baseDelayMs: 1, random });
    const options = { signal, maxWaitMs: 600_000, sinceMs: began, goesFirst: false };
    const first = await limit.enter(options);
    const waiting = limit.enter(options);
    first.refused({ error: new PolicyError('an hour', { status: 429, retryAfterMs: 3_600_000 }), baseDelayMs: 1, random });
    // Without the hour it would wait for ten minutes.
    await expect(waiting).rejects.toBeInstanceOf(WaitTooLong);
  });

  test('clients of one server and key share it until all have closed', () => {
    const [a, b, other] = ['server key', 'server key', 'server'].map((id) => RateLimit.share(id));
    expect(a!.limit).toBe(b!.limit);
    expect(other!.limit).not.toBe(a!.limit);
    for (const { release } of [a!, a!, other!]) release();
    const c = RateLimit.share('server key');
    expect(c.limit).toBe(b!.limit);
    for (const { release } of [b!, c]) release();
    const later = RateLimit.share('server key');
    expect(later.limit).not.toBe(b!.limit);
    later.release();
  });

  test('an abort ends the wait', async () => {
    const controller = new AbortController();
    const limit = new RateLimit();
    const enter = { signal: controller.signal, maxWaitMs: 60_000, sinceMs: performance.now(), goesFirst: false };
    (await limit.enter(enter)).refused({ error: new PolicyError('slow down', { retryAfterMs: 1000 }), baseDelayMs: 1, random: Random.fromSeed(1) });
    const waiting = limit.enter(enter);
    controller.abort();
    await expect(waiting).rejects.toThrow('Stopped before an answer arrived');
  });
});
