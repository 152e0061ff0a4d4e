import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { BusyTime } from '../../src/rollouts/busy-time.ts';

describe('BusyTime', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  const lasting = (ms: number, end: () => void = () => {}) => new Promise<void>((done) => setTimeout(() => done(end()), ms));

  it('counts the time of overlapping works once, and none between them', async () => {
    const busy = new BusyTime();
    const works = [busy.during(lasting(30)), busy.during(lasting(50))];
    await vi.advanceTimersByTimeAsync(20);
    expect(busy.ms).toBe(20);
    await vi.advanceTimersByTimeAsync(100);
    await Promise.all(works);
    expect(busy.ms).toBe(50);
    const failing = busy.during(lasting(7, () => Promise.reject(new Error('gone')) as never)).catch(() => {});
    await vi.advanceTimersByTimeAsync(10);
    await failing;
    expect(busy.ms).toBe(57);
  });
});
