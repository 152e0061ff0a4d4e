/** Updates that leave every weight as it was: no version comes of them, and a run of such steps has no result. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AdamOptions } from '../../../src/core/adam-options.ts';
import { readMetrics } from '../../../src/trainer/records/metrics-journal.ts';
import { SKIP_REMEDIES } from '../../../src/trainer/skip-reason.ts';
import { reachOf, unmovedReason } from '../../../src/trainer/loop/unmoved.ts';
import { adamOptions } from '../../../src/trainer/config/training-schedule.ts';
import { someConfig } from '../some-config.ts';
import { eventsOf, newRun, rowsOf, type SmallRunOptions, trainSmall } from '../small-run.ts';
import { UnigramBackend } from '../unigram-backend.ts';

let parent: string;
let path: string;
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'vf-unmoved-'));
  path = await newRun(parent);
});
afterEach(() => rm(parent, { recursive: true }));

const run = (options: SmallRunOptions) => trainSmall(path, options);

describe('a run whose updates left every weight as it was', () => {
  const config = { steps: 2, evaluation: { every: 1, examples: 4 }, optimizer: { learning_rate: 0.01 } };
  /** No gradient reaches the weights. */
  class Untrainable extends UnigramBackend {
    override async backward(): Promise<void> {}
  }
  /** The update is lost to rounding. */
  class Coarse extends UnigramBackend {
    override async optimStep(options: AdamOptions) {
      return super.optimStep({ ...options, learningRate: 0 });
    }
  }
  /** The weights begin at 0, which holds what no output shows. */
  class Faint extends UnigramBackend {
    override async optimStep(options: AdamOptions) {
      return super.optimStep({ ...options, learningRate: 1e-30 });
    }
  }

  it.each([
    ['no_gradient', Untrainable, 'the gradient is 0 (grad_norm), so every weight stayed as it was'],
    ['too_small', Coarse, 'the update is smaller than float32 can hold, at the learning rate 0.01, so every weight stayed as it was'],
    [
      'too_small',
      Faint,
      'the update changed no weight by more than 2.0e-30, at the learning rate 0.01, and all steps of the run together would change no log-prob, so it was taken back',
    ],
  ] as const)('is stopped without a version, a best adapter or a way on with -R, and its first step says why: %s', async (kind, Backend, text) => {
    const backend = async () => new Backend();
    const outcome = await run({ config, backend });
    expect(outcome).toMatchObject({ reason: 'stopped', step: 2, version: 0, adapter: null, resumeFlags: null });
    expect(outcome.message).toBe(
      `All 2 steps are done, but the policy is unchanged: each was skipped, the last because ${text}. ${SKIP_REMEDIES[kind]}. Start a new run with other settings`,
    );
    expect(await run({ config, backend })).toMatchObject({ message: outcome.message, resumeFlags: null });
    expect((await readdir(path)).includes('best')).toBe(false);
    expect((await readMetrics(join(path, 'metrics.jsonl'))).every(({ values }) => values['policy_version'] === 0)).toBe(true);
    expect((await eventsOf(path)).find(({ kind: of }) => of === 'step_skipped')).toMatchObject({
      step: 1,
      message: `No update: ${text}`,
      reason: kind,
    });
    const steps = (await rowsOf(path)).filter((row) => row['kind'] === 'step');
    expect(steps.map((row) => [row['optimizer_steps'], row['optimizer_steps_skipped']])).toEqual([
      [0, 2],
      [0, 2],
    ]);
    path = await newRun(await mkdtemp(join(parent, 'few-')));
    expect(await run({ config: { ...config, guards: { max_skipped_steps: 1 } }, backend })).toMatchObject({ step: 1, version: 0, resumeFlags: null });
  });

  it('finishes if a later step changed some', async () => {
    let left = 1;
    class Late extends UnigramBackend {
      override async backward(...args: Parameters<UnigramBackend['backward']>): Promise<void> {
        if (left <= 0) await super.backward(...args);
      }
    }
    const outcome = await run({ config, backend: async () => new Late(), observer: { onStep: () => void left-- } });
    expect(outcome).toMatchObject({ reason: 'finished', version: 2 });
    expect((await eventsOf(path)).filter(({ kind }) => kind === 'step_skipped')).toHaveLength(1);
  });
});

describe('unmovedReason', () => {
  const adam: AdamOptions = { learningRate: 0.01, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.1, maxGradNorm: 1 };
  const reasonOf = async (gradNorm: number, version: number, movement: number, options: Partial<AdamOptions> = {}) => {
    let isRestored = false;
    const backend = { movement: async () => movement, restore: async () => void (isRestored = true) };
    const reason = await unmovedReason({ values: { grad_norm: gradNorm } }, { adam: { ...adam, ...options }, version, backend, reach: 1000 });
    return [reason?.kind ?? null, isRestored];
  };

  it('takes back weights that decayed without any gradient so far, and leaves those that earlier gradients move on', async () => {
    expect(await reasonOf(0, 0, 0.01)).toEqual(['no_gradient', true]);
    expect(await reasonOf(2, 0, 0.01, { maxGradNorm: 1e-300 })).toEqual(['too_small', true]);
    expect(await reasonOf(0, 3, 0.01)).toEqual([null, false]);
    expect(await reasonOf(1e-9, 0, 0.01)).toEqual([null, false]);
  });

  it('takes back weights near 0 that moved by less than any step of the run can add up to a change of an output', async () => {
    expect(await reasonOf(2, 3, 1e-30)).toEqual(['too_small', true]);
    expect(await reasonOf(2, 0, 1e-12)).toEqual(['too_small', true]);
    expect(await reasonOf(2, 0, 1e-10)).toEqual([null, false]);
  });

  it('has nothing to say of a rate of 0, which a schedule may have', async () => {
    expect(await reasonOf(2, 0, 0, { learningRate: 0 })).toEqual([null, false]);
    expect(await reasonOf(2, 0, 0)).toEqual(['too_small', false]);
  });
});

describe('reachOf', () => {
  it('does not depend on where the schedule of a run stands', () => {
    const config = someConfig({ optimizer: { learning_rate: 1e-6, schedule: 'cosine', warmup_steps: 10 }, steps: 1000 });
    const grown = [1, 10, 500, 1000].map((step) => reachOf(config, step) * adamOptions(config, step).learningRate);
    for (const each of grown) expect(each).toBeCloseTo(1000 * config.lora.alpha * 1e-6, 12);
  });
});
