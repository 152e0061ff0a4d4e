import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Dataset } from '../../../src/core/dataset.ts';
import { TrainingError } from '../../../src/core/errors.ts';
import { BatchStream, rowsOfStep } from '../../../src/trainer/sources/batch-stream.ts';
import type { SampledBatch } from '../../../src/trainer/sources/sample-rollouts.ts';

const dataset = (length: number) =>
  new Dataset(
    'rows',
    Array.from({ length }, (_, exampleId) => ({ exampleId, prompt: [] })),
  );
const ids = (length: number, size: number, seed: number, step: number) =>
  rowsOfStep(dataset(length), size, seed, step).map(({ exampleId }) => exampleId);

describe('rowsOfStep', () => {
  it('goes through the rows in passes: no row twice in a pass, only a remainder left out, no pass begun within a step {any sizes, any seed}', () => {
    const check = (length: number, share: number, seed: number, pass: number) => {
      const size = 1 + Math.floor(share * (length - 1));
      const steps = Math.floor(length / size);
      const seen = Array.from({ length: steps }, (_, i) => ids(length, size, seed, pass * steps + i + 1));
      expect(seen.every((rows) => rows.length === size)).toBe(true);
      expect(new Set(seen.flat()).size).toBe(steps * size);
    };
    fc.assert(fc.property(fc.integer({ min: 1, max: 60 }), fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(), fc.nat(5), check));
  });

  it('is a function of seed and step: no earlier step has to be computed', () => {
    const forwards = [1, 2, 3, 4, 5, 6].map((step) => ids(20, 5, 3, step));
    const backwards = [6, 5, 4, 3, 2, 1].map((step) => ids(20, 5, 3, step)).toReversed();
    expect(backwards).toEqual(forwards);
  });

  it('gives each pass and each seed an order of its own', () => {
    const pass = (seed: number, first: number) => [0, 1, 2, 3].flatMap((i) => ids(40, 10, seed, first + i));
    expect(pass(1, 1)).not.toEqual(pass(1, 5));
    expect(pass(1, 1)).not.toEqual(pass(2, 1));
    expect(new Set(pass(1, 1))).toEqual(new Set(pass(1, 5)));
  });

  it('refuses more rows a step than there are', () => {
    expect(() => ids(3, 4, 0, 1)).toThrow(/examples_per_step is 4, but rows has only 3 rows/);
  });
});

/** A sampler whose batches end when the test says so. */
function sampler() {
  const begun: number[] = [];
  const batches = new Map<number, PromiseWithResolvers<SampledBatch>>();
  const batch = (step: number) => {
    if (!batches.has(step)) batches.set(step, Promise.withResolvers());
    return batches.get(step)!;
  };
  return {
    begun,
    sample: (step: number) => {
      begun.push(step);
      return batch(step).promise;
    },
    end: (step: number) => batch(step).resolve({ trajectories: [], failed: 0, attempts: step }),
    fail: (step: number, error: Error) => batch(step).reject(error),
  };
}

describe('BatchStream', () => {
  it('samples a step when it is taken, and nothing before, in synchronous runs', async () => {
    const { sample, begun, end } = sampler();
    const stream = new BatchStream({ sample, isAhead: false, lastStep: 5 });
    expect(begun).toEqual([]);
    end(1);
    expect(await stream.take(1)).toMatchObject({ attempts: 1 });
    expect(begun).toEqual([1]);
    await stream.settled();
  });

  it('begins the next step once one is there, and never one past the last', async () => {
    const { sample, begun, end } = sampler();
    const stream = new BatchStream({ sample, isAhead: true, lastStep: 3 });
    const first = stream.take(1);
    expect(begun).toEqual([1]);
    end(1);
    await first;
    expect(begun).toEqual([1, 2]);
    end(2);
    expect(await stream.take(2)).toMatchObject({ attempts: 2 });
    end(3);
    await stream.take(3);
    expect(begun).toEqual([1, 2, 3]);
  });

  it('samples a step from scratch when it was not the one ahead', async () => {
    const { sample, begun, end } = sampler();
    const stream = new BatchStream({ sample, isAhead: true, lastStep: 9 });
    for (const step of [4, 5, 6, 7, 8]) end(step);
    await stream.take(4);
    expect(await stream.take(7)).toMatchObject({ attempts: 7 });
    expect(begun).toEqual([4, 5, 7, 8]);
  });

  it('reports a failure of the look-ahead to the caller that takes it, and not before', async () => {
    const { sample, end, fail } = sampler();
    const stream = new BatchStream({ sample, isAhead: true, lastStep: 3 });
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on('unhandledRejection', note);
    try {
      end(1);
      await stream.take(1);
      fail(2, new TrainingError('too many failures'));
      // Unhandled rejections are reported after the microtasks of a turn.
      await new Promise((resolve) => setImmediate(resolve));
      await stream.settled();
      expect(unhandled).toEqual([]);
      await expect(stream.take(2)).rejects.toThrow('too many failures');
    } finally {
      process.off('unhandledRejection', note);
    }
  });

  it('is settled only when nothing is being sampled any more', async () => {
    const { sample, end } = sampler();
    const stream = new BatchStream({ sample, isAhead: true, lastStep: 3 });
    await stream.settled();
    end(1);
    await stream.take(1);
    let isSettled = false;
    const settled = stream.settled().then(() => (isSettled = true));
    await new Promise((resolve) => setImmediate(resolve));
    expect(isSettled).toBe(false);
    end(2);
    await settled;
    expect(isSettled).toBe(true);
  });
});
