import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { bundledPresets } from '../../../src/sessions/environment/presets.ts';
import { presetLayer } from '../../../src/trainer/config/preset.ts';
import { newRun, rowsOf, trainSmall } from '../small-run.ts';
import { someConfig } from '../some-config.ts';
import { UnigramBackend } from '../unigram-backend.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-gspo-'));
afterAll(() => rmSync(root, { recursive: true }));

const presets = bundledPresets()
  .filter(({ name }) => name.startsWith('ddai-'))
  .map(
    (preset) =>
      [
        preset.name,
        presetLayer(preset).table as { readonly algorithm: Record<string, unknown>; readonly rollouts: Record<string, unknown> },
      ] as const,
  );

/** The metrics of a step of four groups of four with the preset's own algorithm, of which `minibatches` is set. */
async function stepOf(algorithm: Record<string, unknown>, minibatches: number): Promise<Record<string, unknown>> {
  const path = await newRun(mkdtempSync(join(root, 'run-')));
  const config = {
    steps: 1,
    rollouts: { examples_per_step: 4 },
    evaluation: { every: 0 },
    algorithm: { correction: { level: 'none' }, ...algorithm, minibatches },
  };
  await trainSmall(path, { config, backend: async () => new UnigramBackend() });
  return (await rowsOf(path)).find(({ kind }) => kind === 'step')!;
}

describe('the presets of DDAI', () => {
  it.each(presets)('%s clips sequences over several updates a batch', (_, { algorithm, rollouts }) => {
    const { algorithm: resolved, rollouts: sampled } = someConfig({ algorithm, rollouts });
    expect(resolved.loss).toMatchObject({ ratio: 'sequence', clipLow: 3e-4, clipHigh: 4e-4, aggregation: 'sequence_mean' });
    expect(resolved.minibatches * resolved.epochs).toBeGreaterThan(1);
    expect(resolved.minibatches).toBeLessThanOrEqual(sampled.examplesPerStep);
  });

  it.each(presets)('%s moves ratios away from 1, and says how many sequences were clipped', async (_, { algorithm }) => {
    const several = await stepOf(algorithm, 4);
    // A group whose rewards are equal has nothing to teach.
    expect(several['optimizer_steps']).toBeGreaterThan(1);
    expect(several['sequence_ratio_mean']).not.toBe(1);
    expect(several['clip_fraction_sequences']).toBeGreaterThan(0);
    // With one update the clip is without effect.
    expect(await stepOf(algorithm, 1)).toMatchObject({
      optimizer_steps: 1,
      ratio_min: 1,
      ratio_max: 1,
      sequence_ratio_mean: 1,
      clip_fraction_sequences: 0,
    });
  });
});
