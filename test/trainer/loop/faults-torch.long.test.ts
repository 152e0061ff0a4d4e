/**
 * A fault at every publish, checkpoint and evaluation of a run over the torch worker, and kill -9 at the second of each: resumed, it ends with the weights of a run that had none.
 * @module-tag long
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openNano } from '../gradients/torch/nano-backend.ts';
import { skipReason, torchPython } from '../gradients/torch/torch-python.ts';
import { FaultSweep, PLACES } from './fault-sweep.ts';

/** Of each test, because the tag has a shorter one. */
const LIMIT = { timeout: 3_600_000 };

describe.skipIf(torchPython.path === null)(`faults of a run over the torch worker${skipReason}`, () => {
  let root: string;
  let sweep: FaultSweep;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'vf-faults-torch-'));
    sweep = await FaultSweep.open(root, { kind: 'torch', open: () => openNano(), file: 'adapter_model.safetensors' });
  }, 300_000);
  afterAll(() => rm(root, { recursive: true }));

  it.each(PLACES)('a fault at every moment of a kind costs nothing once the run is resumed: %s', LIMIT, async (place, least) => {
    expect(await sweep.faults(place)).toBeGreaterThanOrEqual(least);
  });

  it.each(PLACES)('kill -9 at the second moment of a kind costs nothing once the run is resumed: %s', LIMIT, async (place) => {
    const path = await sweep.newRun();
    expect(await sweep.isKilled(path, place, 2)).toBe(true);
    await sweep.expectWhole(path);
  });
});
