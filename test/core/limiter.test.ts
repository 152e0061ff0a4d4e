import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CancelledError, ConfigError } from '../../src/core/errors.ts';
import { Limiter, newClient } from '../../src/core/limiter.ts';

const forever = new AbortController().signal;

describe('Limiter', () => {
  test('never runs more than its concurrency and runs everything {any concurrency, any durations}', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 5 }),
        fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 20 }),
        async (concurrency, durations) => {
          const limiter = new Limiter(concurrency);
          let running = 0;
          let most = 0;
          const task = async (ticks: number) => {
            most = Math.max(most, ++running);
            for (let i = 0; i < ticks; i++) await Promise.resolve();
            running--;
            return ticks;
          };
          expect(await Promise.all(durations.map((ticks) => limiter.run(() => task(ticks), forever)))).toEqual(durations);
          expect(most).toBeLessThanOrEqual(concurrency);
          expect([limiter.active, limiter.waiting]).toEqual([0, 0]);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('starts tasks in the order they came', async () => {
    const limiter = new Limiter(1);
    const started: number[] = [];
    await Promise.all([1, 2, 3].map((n) => limiter.run(async () => void started.push(n), forever)));
    expect(started).toEqual([1, 2, 3]);
  });

  test('starts tasks that go ahead before the others, in the order they came', async () => {
    const limiter = new Limiter(1);
    const started: number[] = [];
    const run = (n: number, goesAhead: boolean) => limiter.run(async () => void started.push(n), forever, { goesAhead });
    const all = [run(1, false), run(2, false), run(3, true), run(4, true)];
    expect(limiter.waiting).toBe(3);
    await Promise.all(all);
    expect(started).toEqual([1, 3, 4, 2]);
  });

  test('an aborted waiter leaves the queue without running', async () => {
    const limiter = new Limiter(1);
    let finish!: () => void;
    const first = limiter.run(() => new Promise<void>((resolve) => (finish = resolve)), forever);
    const controller = new AbortController();
    let ran = false;
    const second = limiter.run(async () => void (ran = true), controller.signal);
    expect([limiter.active, limiter.waiting]).toEqual([1, 1]);
    controller.abort(new Error('stop'));
    await expect(second).rejects.toThrow(CancelledError);
    expect(limiter.waiting).toBe(0);
    finish();
    await first;
    expect(ran).toBe(false);
    await expect(limiter.run(async () => 'free again', forever)).resolves.toBe('free again');
  });

  test('a failing or throwing task frees its slot', async () => {
    const limiter = new Limiter(1);
    await expect(limiter.run(() => Promise.reject(new Error('rejects')), forever)).rejects.toThrow('rejects');
    await expect(
      limiter.run(() => {
        throw new Error('throws');
      }, forever),
    ).rejects.toThrow('throws');
    expect(limiter.active).toBe(0);
  });

  test('a signal aborted before keeps the task from starting', async () => {
    await expect(new Limiter(1).run(async () => 1, AbortSignal.abort())).rejects.toThrow(CancelledError);
  });

  test.each([0, -1, 1.5, NaN])('refuses a concurrency of %s', (concurrency) => {
    expect(() => new Limiter(concurrency)).toThrow(ConfigError);
  });

  test('gives clients their turns one after another, and of one client the task that is due first', async () => {
    const limiter = new Limiter(1);
    const gate = Promise.withResolvers<void>();
    const { signal } = new AbortController();
    const began: string[] = [];
    const [many, few] = [newClient(), newClient()];
    const first = limiter.run(() => gate.promise, signal, { turn: { client: many, dueMs: 0 } });
    const rest = (
      [
        ['many 3', many, 3],
        ['many 2', many, 2],
        ['many 1', many, 1],
        ['few 9', few, 9],
        ['few 8', few, 8],
      ] as const
    ).map(([name, client, dueMs]) => limiter.run(async () => void began.push(name), signal, { turn: { client, dueMs } }));
    gate.resolve();
    await Promise.all([first, ...rest]);
    expect(began).toEqual(['few 8', 'many 1', 'few 9', 'many 2', 'many 3']);
  });
});
