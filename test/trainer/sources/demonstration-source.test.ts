import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { DemonstrationSource } from '../../../src/trainer/sources/demonstration-source.ts';
import { trajectory } from '../some-trajectories.ts';

const rows = Array.from({ length: 7 }, (_, i) =>
  trajectory(`row ${i}/0`, { groupId: `row ${i}`, reward: null, logProbs: null, ids: Int32Array.of(1, 2, 3 + i) }),
);
const placesOf = async (source: DemonstrationSource, steps: number) => {
  const batches = await Promise.all(Array.from({ length: steps }, (_, i) => source.take(i + 1)));
  return batches.map(({ trajectories }) => trajectories.map(({ groupId }) => groupId.replace(/#.*/, '')));
};

describe('DemonstrationSource', () => {
  it('continues with the rows that it began with, and refuses others, held-out ones too', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vf-rows-'));
    const heldOut = [trajectory('held/0')];
    const source = (changes: object = {}) => new DemonstrationSource({ rows, heldOut, batchSize: 3, seed: 4, ...changes });
    await source().saveState(folder);
    await source().loadState(folder);
    const text = /^The supervised rows are not those that this run began with: 7 and 1 held out \([0-9a-f]{8}\) then, 6 and 1 held out .* now\./;
    await expect(source({ rows: rows.slice(1) }).loadState(folder)).rejects.toThrow(text);
    await expect(source({ rows: rows.toReversed() }).loadState(folder)).rejects.toThrow(ConfigError);
    await expect(source({ heldOut: [] }).loadState(folder)).rejects.toThrow(/7 and 1 held out .* then, 7 \(/);
    rmSync(folder, { recursive: true });
  });

  it('takes every row once in each pass, the last batch of which has the rows that are left', async () => {
    const batches = await placesOf(new DemonstrationSource({ rows, batchSize: 3, seed: 4 }), 9);
    expect(batches.map((batch) => batch.length)).toEqual([3, 3, 1, 3, 3, 1, 3, 3, 1]);
    const all = batches.flat();
    const passes = [all.slice(0, 7), all.slice(7, 14), all.slice(14)];
    for (const pass of passes) expect(new Set(pass).size).toBe(7);
    expect(passes[0]).not.toEqual(passes[1]);
  });

  it('is a function of seed and step', async () => {
    const source = (seed: number) => new DemonstrationSource({ rows, batchSize: 3, seed });
    const inOrder = await placesOf(source(4), 5);
    const backwards = source(4);
    for (const step of [5, 4, 3, 2, 1]) {
      const { trajectories } = await backwards.take(step);
      expect(trajectories.map(({ groupId }) => groupId.replace(/#.*/, ''))).toEqual(inOrder[step - 1]);
    }
    expect(await placesOf(source(5), 5)).not.toEqual(inOrder);
  });

  it('gives each row of a batch a group of its own, and a batch larger than the data each row once', async () => {
    const { trajectories } = await new DemonstrationSource({ rows, batchSize: 20, seed: 0 }).take(1);
    expect(new Set(trajectories.map(({ groupId }) => groupId)).size).toBe(7);
    expect(new Set(trajectories.map(({ rolloutId }) => rolloutId)).size).toBe(7);
  });

  it('needs no policy', () => {
    expect(new DemonstrationSource({ rows, batchSize: 3, seed: 0 }).needsPolicy()).toBe(false);
  });
});
