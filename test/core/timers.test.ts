import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LONGEST_TIMER_MS, timerMs } from '../../src/core/timers.ts';

describe('timerMs', () => {
  it('gives a delay after which a timer fires last, not first, however long it is {any time}', async () => {
    expect([-5, 0, 7, 3e9, Infinity].map(timerMs)).toEqual([0, 0, 7, LONGEST_TIMER_MS, LONGEST_TIMER_MS]);
    const stop = new AbortController();
    const { signal } = stop;
    const first = await Promise.race([
      ...[3e9, Infinity].map((ms) => sleep(timerMs(ms), 'too soon', { signal }).catch(() => 'ended')),
      sleep(5, 'in order'),
    ]);
    stop.abort();
    expect(first).toBe('in order');
  });
});
