/** Whole runs of `vf-train` at a training service on loopback, which computes with the bundled nano model. */
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelPath } from '../../../src/data/bundled-models.ts';
import { train, type TrainOptions } from '../../../src/library/train.ts';
import { runInProcess } from '../../cli/in-process.ts';
import { type EngineService, engineService } from '../../tinker/service/engine-service.ts';

let folder: string;
let service: EngineService;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'vf-tinker-session-'));
  service = await engineService({ modelPath: modelPath('nano-base') });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

const short = (backend: object = {}): TrainOptions => ({
  environment: 'search-r1',
  preset: 'laptop',
  steps: 2,
  output: join(folder, 'runs'),
  settings: {
    backend: { kind: 'tinker', baseUrl: service.url, model: 'nano-base', ...backend },
    lora: { alpha: 32 },
    rollouts: { examplesPerStep: 4, rolloutsPerExample: 8 },
    evaluation: { every: 0 },
    checkpoint: { every: 1 },
  },
});

/** The reward of each step. */
const rewards = (metrics: readonly { readonly values: Readonly<Record<string, number | null>> }[]) =>
  metrics.map(({ values }) => values['reward_mean']);

describe('openTinkerSession', () => {
  it('runs to the end at a service, whose weights every checkpoint names', { timeout: 120_000 }, async () => {
    const outcome = await train(short());
    expect(outcome).toMatchObject({ reason: 'finished', step: 2 });
    const state = JSON.parse(readFileSync(join(outcome.directory, 'checkpoints/step-000002/state/tinker.json'), 'utf8')) as Record<string, unknown>;
    expect(state).toMatchObject({ kind: 'state', base_model: 'nano-base', rank: 8, service: service.url });
    expect(readdirSync(outcome.adapter!)).toEqual(['tinker.json']);
    const [first] = outcome.metrics;
    expect(first!.values['log_prob_difference_mean']).toBeLessThan(1e-6);
    expect(first!.values['grad_norm']).toBeGreaterThan(0);
    // Nothing that a slot is needed for is left.
    const ending = service.asked.slice(-4).map(({ route }) => route);
    expect(ending.filter((route) => route === 'unload_model')).toHaveLength(2);
    expect(ending).toContain('sessions/s1/finish');
  });

  it('goes on after a restart of the service, and takes the steps that it would have taken', { timeout: 180_000 }, async () => {
    const whole = await train({ ...short(), steps: 3 });
    let isRestarted = false;
    const restarted = await train({
      ...short(),
      steps: 3,
      onStep: ({ step }): unknown => {
        if (step !== 2 || isRestarted) return null;
        isRestarted = true;
        return service.restart();
      },
    });
    expect(restarted).toMatchObject({ reason: 'finished', step: 3 });
    expect(rewards(restarted.metrics)).toEqual(rewards(whole.metrics));
    expect(readFileSync(join(restarted.directory, 'events.jsonl'), 'utf8')).toContain('"kind":"backend_lost"');
  });

  it('resumes from the state that the service keeps', { timeout: 120_000 }, async () => {
    const controller = new AbortController();
    const aborted = await train({ ...short(), signal: controller.signal, onStep: ({ step }) => step === 1 && controller.abort() });
    expect(aborted).toMatchObject({ reason: 'interrupted', resumable: true });
    expect(await train({ resume: aborted.directory })).toMatchObject({ reason: 'finished', step: 2 });
  });

  it('refuses a service with another base, before anything is sampled', { timeout: 60_000 }, async () => {
    await using other = await engineService({ modelPath: modelPath('nano-base'), baseModel: 'another-model' });
    await expect(train(short({ baseUrl: other.url }))).rejects.toThrow(
      'The training service has the base another-model, but this run is of nano-base',
    );
    expect(other.to('asample')).toEqual([]);
  });

  it('needs a key of the hosted service only', async () => {
    await expect(train(short({ baseUrl: null, apiKeyVar: 'VF_NO_SUCH_KEY' }))).rejects.toThrow(
      /^The environment variable VF_NO_SUCH_KEY holds no API key of the hosted Tinker/,
    );
  });

  it('has no files to push', async () => {
    const words = [
      'search-r1',
      '--preset',
      'laptop',
      '--tinker',
      'nano-base',
      '--set',
      `backend.base_url=${service.url}`,
      '--push',
      'me/searcher',
      '-o',
      folder,
    ];
    const { code, stderr } = await runInProcess('vf-train', words, { cwd: folder, env: { HOME: folder } });
    expect([code, stderr]).toEqual([2, expect.stringContaining('--push needs the files of the adapter, which stays at the training service')]);
  });
});
