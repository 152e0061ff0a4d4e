import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Dataset } from '../../../src/core/dataset.ts';
import { refillRows, rowsOfStep } from '../../../src/trainer/sources/rows-of-step.ts';

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
    expect(() => ids(0, 4, 0, 1)).toThrow('rows has no rows to train on. Give the environment rows in its train data.');
  });
});

describe('refillRows', () => {
  const fill = (length: number, used: readonly number[], count: number, round = 1) => {
    const data = dataset(length);
    return refillRows(data, { used: used.map((i) => data.at(i)), count, seed: 3, step: 5, round }).map(({ exampleId }) => exampleId as number);
  };

  it('gives rows that the step does not have, the same ones each time, and others in another round', () => {
    const rows = fill(50, [1, 2, 3], 10);
    expect(new Set(rows).size).toBe(10);
    expect(rows.some((id) => [1, 2, 3].includes(id))).toBe(false);
    expect(fill(50, [1, 2, 3], 10)).toEqual(rows);
    expect(fill(50, [1, 2, 3], 10, 2)).not.toEqual(rows);
  });

  it('gives fewer where the data have no more', () => {
    expect(fill(5, [0, 1, 2], 4).toSorted((a, b) => a - b)).toEqual([3, 4]);
  });
});
