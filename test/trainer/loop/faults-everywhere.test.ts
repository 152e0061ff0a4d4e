/** A fault, or a kill, at every publish, every checkpoint and every evaluation of a run: resumed, it ends with the weights, metrics and evaluations of a run that had none. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UnigramBackend } from '../unigram-backend.ts';
import { FaultSweep, PLACES } from './fault-sweep.ts';

let root: string;
let sweep: FaultSweep;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'vf-faults-'));
  sweep = await FaultSweep.open(root, { kind: 'unigram', open: async () => new UnigramBackend(), file: 'unigram.json' });
});
afterAll(() => rm(root, { recursive: true }));

describe('a fault at every moment of a kind', () => {
  it.each(PLACES)('costs a run nothing once it is resumed: %s', { timeout: 60_000 }, async (place, least) => {
    expect(await sweep.faults(place)).toBeGreaterThanOrEqual(least);
  });
});

describe('kill -9 at every moment of a kind', { timeout: 300_000 }, () => {
  it.each(PLACES)('costs a run nothing once it is resumed, the second one: %s', async (place) => {
    const path = await sweep.newRun();
    expect(await sweep.isKilled(path, place, 2)).toBe(true);
    await sweep.expectWhole(path);
  });

  it.each(PLACES)('costs a run nothing once it is resumed, every one: %s', { tags: 'long' }, async (place, _, least) => {
    expect(await sweep.kills(place)).toBeGreaterThanOrEqual(least);
  });

  it.each(PLACES)('costs one run nothing that is killed at each of its processes: %s', { tags: 'long' }, async (place) => {
    const path = await sweep.newRun();
    let count = 0;
    // Each process passes one such moment more than the one before it.
    while (count < 12 && (await sweep.isKilled(path, place, 1 + (count % 3)))) count += 1;
    expect(count).toBeGreaterThan(1);
    await sweep.expectWhole(path);
  });
});
