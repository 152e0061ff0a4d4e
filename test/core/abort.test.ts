import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { PolicyVersions } from '../../src/clients/policy-versions.ts';
import { abortError, eitherSignal, isCancelled, onAbort, openUntilAborted, throwIfAborted, untilAborted } from '../../src/core/abort.ts';
import { CancelledError, TimeoutError } from '../../src/core/errors.ts';
import { Limiter } from '../../src/core/limiter.ts';
import { Random } from '../../src/core/random.ts';
import { SharedFlight } from '../../src/core/shared-flight.ts';
import { deadlineOf } from '../../src/rollouts/deadline.ts';
import { withRetries } from '../../src/transport/retry.ts';

const never = new Promise<never>(() => {});
const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length;

describe('onAbort', () => {
  it('calls the listener once, at once where the signal has aborted, and not after it was disposed', () => {
    const calls: string[] = [];
    const stop = new AbortController();
    onAbort(stop.signal, () => calls.push('first'));
    onAbort(stop.signal, () => calls.push('disposed'))[Symbol.dispose]();
    stop.abort();
    onAbort(stop.signal, () => calls.push('late'));
    expect(calls).toEqual(['first', 'late']);
  });
});

describe('eitherSignal', () => {
  it('aborts with the reason of the first of two, also of one that was aborted before', () => {
    const [a, b] = [new AbortController(), new AbortController()];
    using either = eitherSignal(a.signal, b.signal);
    expect(either.signal.aborted).toBe(false);
    b.abort(new Error('second'));
    a.abort(new Error('first, but later'));
    expect(either.signal.reason).toEqual(new Error('second'));
    using late = eitherSignal(new AbortController().signal, AbortSignal.abort('before'));
    expect(late.signal.reason).toBe('before');
  });

  it('listens no longer once it is disposed', () => {
    const stop = new AbortController();
    const either = eitherSignal(stop.signal, new AbortController().signal);
    either[Symbol.dispose]();
    stop.abort();
    expect(either.signal.aborted).toBe(false);
  });
});

describe('untilAborted', () => {
  it('settles as the work does', async () => {
    const { signal } = new AbortController();
    expect(await untilAborted(1, signal)).toBe(1);
    await expect(untilAborted(Promise.reject(new Error('failed')), signal)).rejects.toThrow('failed');
  });

  it('rejects with the reason, or the error that the caller makes, when the signal aborts', async () => {
    const stop = new AbortController();
    const waits = [untilAborted(never, stop.signal), untilAborted(never, stop.signal, () => new CancelledError('stopped'))];
    stop.abort(new Error('reason'));
    await expect(waits[0]).rejects.toThrow('reason');
    await expect(waits[1]).rejects.toThrow(CancelledError);
  });

  it('rejects where the signal aborted before, also when the work is done', async () => {
    await expect(untilAborted(1, AbortSignal.abort(new Error('reason')))).rejects.toThrow('reason');
  });

  it('ignores a failure of the work after the abort', async () => {
    const work = Promise.withResolvers<never>();
    const stop = new AbortController();
    const wait = untilAborted(work.promise, stop.signal);
    stop.abort(new Error('reason'));
    work.reject(new Error('too late'));
    await expect(wait).rejects.toThrow('reason');
  });
});

describe('openUntilAborted', () => {
  it('disposes what opens after the abort', async () => {
    const opening = Promise.withResolvers<AsyncDisposable>();
    const stop = new AbortController();
    const wait = openUntilAborted(opening.promise, stop.signal);
    stop.abort(new Error('reason'));
    await expect(wait).rejects.toThrow('reason');
    const disposed = Promise.withResolvers<string>();
    opening.resolve({ [Symbol.asyncDispose]: async () => disposed.resolve('disposed') });
    expect(await disposed.promise).toBe('disposed');
  });
});

describe('the errors of a signal', () => {
  it('are CancelledErrors with the reason as their cause, and a VfError where that is the reason', () => {
    const reason = new Error('reason');
    const late = new TimeoutError('late');
    expect(() => throwIfAborted(AbortSignal.abort(reason), 'Stopped')).toThrow(new CancelledError('Stopped', { cause: reason }));
    expect(() => throwIfAborted(new AbortController().signal, 'Stopped')).not.toThrow();
    expect(() => throwIfAborted(undefined, 'Stopped')).not.toThrow();
    expect(abortError(AbortSignal.abort(reason))).toMatchObject({ message: 'Stopped before an answer arrived', cause: reason });
    expect(abortError(AbortSignal.abort(late))).toBe(late);
    expect([reason, late].map((one) => isCancelled(AbortSignal.abort(one)))).toEqual([true, false]);
  });
});

describe('SharedFlight', () => {
  it('aborts its work in the moment in which the last caller leaves, and only then', async () => {
    const [one, two] = [new AbortController(), new AbortController()];
    let inner!: AbortSignal;
    const flight = new SharedFlight((signal) => ((inner = signal), never));
    const waits = [flight.wait(one.signal), flight.wait(two.signal)];
    await Promise.resolve();
    one.abort();
    expect([flight.isAbandoned, inner.aborted]).toEqual([false, false]);
    two.abort();
    expect([flight.isAbandoned, inner.aborted]).toEqual([true, true]);
    for (const wait of waits) await expect(wait).rejects.toThrow(CancelledError);
  });
});

/** Every kind of wait, run to its normal end. */
const WAITS: Record<string, (signal: AbortSignal) => Promise<unknown>> = {
  untilAborted: (signal) => untilAborted(Promise.resolve(1), signal),
  'SharedFlight.wait': (signal) => new SharedFlight(async () => 1).wait(signal),
  'Limiter.run': (signal) => {
    const limiter = new Limiter(1);
    return Promise.all([1, 2, 3].map((n) => limiter.run(async () => n, signal)));
  },
  'PolicyVersions.drained': (signal) => {
    const versions = new PolicyVersions({ version: 0, model: 'base' });
    const lease = versions.acquire();
    const drained = versions.drained(0, signal);
    lease.release();
    return drained;
  },
  withRetries: (signal) => {
    let calls = 0;
    const flaky = async () => {
      if (++calls < 3) throw new TimeoutError('busy', { retryable: true });
    };
    return withRetries(flaky, { signal, timeoutMs: 1000, maxRetries: 2, random: Random.fromSeed(0), baseDelayMs: 1 });
  },
  deadlineOf: async (signal) => {
    using _ = deadlineOf({ timeoutMs: 1000, what: 'It did not end', option: 'timeoutMs' }, signal);
  },
};

describe('a wait on the signal of a run', () => {
  it.each(Object.entries(WAITS))('%s leaves no listener when it ends', async (_name, wait) => {
    const { signal } = new AbortController();
    await wait(signal);
    expect(listeners(signal)).toBe(0);
  });
});
