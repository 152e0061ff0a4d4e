import { describe, expect, it } from 'vitest';
import { Dataset } from '../../src/core/dataset.ts';
import { Random } from '../../src/core/random.ts';

const rows = Array.from({ length: 5 }, (_, exampleId) => ({ exampleId, prompt: [] }));
const dataset = new Dataset('five', rows);

describe('Dataset', () => {
  it('iterates its rows in order and gives each by index', () => {
    expect([...dataset]).toEqual(rows);
    expect(dataset.at(4)).toBe(rows[4]);
  });

  it('never repeats rows: an index outside is an error', () => {
    expect(() => dataset.at(5)).toThrow('five has no row 5; its rows are 0 to 4');
    expect(dataset.take(9).length).toBe(5);
    expect(dataset.take(0).length).toBe(0);
  });

  it.each([-1, 1.5, NaN, Infinity])('refuses to take %s rows', (n) => {
    expect(() => dataset.take(n)).toThrow(`The number of rows must be an integer of at least 0, got ${n}`);
  });

  it('shuffles by seed without losing a row', () => {
    const shuffled = dataset.shuffle(Random.fromSeed(1));
    expect([...shuffled]).toEqual([...dataset.shuffle(Random.fromSeed(1))]);
    expect(new Set(shuffled)).toEqual(new Set(rows));
  });
});
