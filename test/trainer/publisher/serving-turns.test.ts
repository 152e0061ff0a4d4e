import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { onAbort } from '../../../src/core/abort.ts';
import { ServingTurns } from '../../../src/trainer/publisher/replica-keeper.ts';

const { signal } = new AbortController();
/** Rejects when its signal aborts, and never ends otherwise. */
const endless = (inner: AbortSignal) => new Promise<never>((_, reject) => onAbort(inner, () => reject(inner.reason as Error)));

describe('ServingTurns', () => {
  it('runs what is alone one after another, in order, also after a failure', async () => {
    const turns = new ServingTurns();
    const seen: string[] = [];
    const step = (name: string, ms: number) => async () => {
      seen.push(`${name} begins`);
      await sleep(ms);
      seen.push(`${name} ends`);
      if (name === 'a') throw new Error('a failed');
    };
    const [first] = await Promise.allSettled([
      turns.alone(step('a', 20), { interrupts: true }),
      turns.alone(step('b', 1), { interrupts: false }),
      turns.together(step('c', 1), signal),
    ]);
    expect(first.status).toBe('rejected');
    expect(seen).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
  });

  it('runs what is together side by side, and cancels it for what interrupts', async () => {
    const turns = new ServingTurns();
    let running = 0;
    const call = (inner: AbortSignal) => {
      running++;
      return endless(inner);
    };
    const calls = [turns.together(call, signal), turns.together(call, signal)];
    await sleep(1);
    expect(running).toBe(2);
    expect(await turns.alone(async () => 'published', { interrupts: true })).toBe('published');
    expect(await Promise.all(calls)).toEqual([null, null]);
  });

  it('waits for what is together where it does not interrupt', async () => {
    const turns = new ServingTurns();
    const { promise, resolve } = Promise.withResolvers<string>();
    const caughtUp = turns.together(() => promise, signal);
    await sleep(1);
    let isRetired = false;
    const retired = turns.alone(async () => void (isRetired = true), { interrupts: false });
    await sleep(5);
    expect(isRetired).toBe(false);
    resolve('caught up');
    expect(await caughtUp).toBe('caught up');
    await retired;
  });

  it('rejects with the reason where the caller itself cancels', async () => {
    const turns = new ServingTurns();
    const stop = new AbortController();
    const call = turns.together(endless, stop.signal);
    await sleep(1);
    stop.abort(new Error('the run ends'));
    await expect(call).rejects.toThrow('the run ends');
  });
});
