import { describe, expect, it } from 'vitest';
import { TrainingError } from '../../../src/core/errors.ts';
import { AheadSource } from '../../../src/trainer/sources/ahead-source.ts';
import type { TrajectoryBatch, TrajectorySource } from '../../../src/trainer/trajectory-source.ts';

const { signal } = new AbortController();

/** A sampler whose batches end when the test says so. */
function sampler() {
  const begun: number[] = [];
  const batches = new Map<number, PromiseWithResolvers<TrajectoryBatch>>();
  const batch = (step: number) => {
    if (!batches.has(step)) batches.set(step, Promise.withResolvers());
    return batches.get(step)!;
  };
  const source: TrajectorySource = {
    take: (step) => {
      begun.push(step);
      return batch(step).promise;
    },
    needsPolicy: (step) => step === 3,
    saveState: async () => {},
    loadState: async () => {},
  };
  return {
    begun,
    source,
    end: (step: number) => batch(step).resolve({ trajectories: [], attempts: step }),
    fail: (step: number, error: Error) => batch(step).reject(error),
  };
}

describe('AheadSource', () => {
  it('begins the next step once one is there, and never one past the last', async () => {
    const { source, begun, end } = sampler();
    const stream = new AheadSource(source, 3);
    const first = stream.take(1, signal);
    expect(begun).toEqual([1]);
    end(1);
    await first;
    expect(begun).toEqual([1, 2]);
    end(2);
    expect(await stream.take(2, signal)).toMatchObject({ attempts: 2 });
    end(3);
    await stream.take(3, signal);
    expect(begun).toEqual([1, 2, 3]);
  });

  it('samples a step from scratch when it was not the one ahead', async () => {
    const { source, begun, end } = sampler();
    const stream = new AheadSource(source, 9);
    for (const step of [4, 5, 6, 7, 8]) end(step);
    await stream.take(4, signal);
    expect(await stream.take(7, signal)).toMatchObject({ attempts: 7 });
    expect(begun).toEqual([4, 5, 7, 8]);
  });

  it('reports a failure of the look-ahead to the caller that takes it, and not before', async () => {
    const { source, end, fail } = sampler();
    const stream = new AheadSource(source, 3);
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on('unhandledRejection', note);
    try {
      end(1);
      await stream.take(1, signal);
      fail(2, new TrainingError('too many failures'));
      // Unhandled rejections are reported after the microtasks of a turn.
      await new Promise((resolve) => setImmediate(resolve));
      await stream.close();
      expect(unhandled).toEqual([]);
      await expect(stream.take(2, signal)).rejects.toThrow('too many failures');
    } finally {
      process.off('unhandledRejection', note);
    }
  });

  it('is settled only when nothing is being sampled any more', async () => {
    const { source, end } = sampler();
    const stream = new AheadSource(source, 3);
    await stream.close();
    end(1);
    await stream.take(1, signal);
    let isSettled = false;
    const settled = stream.close().then(() => (isSettled = true));
    await new Promise((resolve) => setImmediate(resolve));
    expect(isSettled).toBe(false);
    end(2);
    await settled;
    expect(isSettled).toBe(true);
  });

  it('needs the policy for a step where the one after it does, which is sampled from the same weights', () => {
    const stream = new AheadSource(sampler().source, 4);
    expect([1, 2, 3, 4].map((step) => stream.needsPolicy(step))).toEqual([false, true, true, false]);
    expect(new AheadSource(sampler().source, 2).needsPolicy(2)).toBe(false);
  });
});
