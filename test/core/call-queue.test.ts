import { describe, expect, it } from 'vitest';
import { CallQueue } from '../../src/core/call-queue.ts';

describe('CallQueue', () => {
  it('makes each call when the one before has ended, whether it failed or not', async () => {
    const queue = new CallQueue();
    const { promise, reject } = Promise.withResolvers<void>();
    const calls: string[] = [];
    const first = queue.run(() => promise);
    const second = queue.run(async () => calls.push('second'));
    const third = queue.run(() => {
      throw new RangeError('third');
    });
    const fourth = queue.run(async () => calls.push('fourth'));
    await Promise.resolve();
    expect(calls).toEqual([]);
    reject(new TypeError('first'));
    await expect(first).rejects.toThrow('first');
    expect(await second).toBe(1);
    await expect(third).rejects.toThrow('third');
    expect(await fourth).toBe(2);
    expect(calls).toEqual(['second', 'fourth']);
  });
});
