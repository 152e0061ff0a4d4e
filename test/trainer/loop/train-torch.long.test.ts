/**
 * The loop over the real worker, killed in more ways than train-torch.test.ts shows: a rank of two, the whole process.
 * @module-tag long
 */
import { once } from 'node:events';
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TorchBackend } from '../../../src/trainer/gradients/torch/torch-backend.ts';
import { distance, readAdapter } from '../../contracts/gradient-cases.ts';
import { openNano } from '../gradients/torch/nano-backend.ts';
import { skipReason, torchPython } from '../gradients/torch/torch-python.ts';
import { finishSmall, startSmall, untilPhases } from '../small-process.ts';
import { eventsOf, finalAdapter, newRun, rowsOf, trainSmall } from '../small-run.ts';

const CONFIG = {
  steps: 5,
  // The log-probs of the scripted client are no model's, so their difference means nothing.
  guards: { max_log_prob_difference: null },
  algorithm: { old_log_probs: 'trainer', minibatches: 2, epochs: 2, kl: { coefficient: 0.01 }, correction: { level: 'token' } },
  optimizer: { learning_rate: 0.002 },
  checkpoint: { every: 2, keep: 2, keep_rollouts: true },
};
/** Of the longest test, because the tag has a shorter one. */
const LIMIT = { timeout: 1_800_000 };
const WEIGHTS = 'adapter_model.safetensors';

describe.skipIf(torchPython.path === null)(`train over the torch worker${skipReason}`, { timeout: 300_000 }, () => {
  let root: string;
  let whole: { readonly path: string; readonly adapter: string; readonly weights: Buffer; readonly rows: Record<string, unknown>[] };
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'vf-train-torch-'));
    const path = await newRun(root);
    const outcome = await trainSmall(path, { backend: () => openNano(), config: CONFIG });
    whole = { path, adapter: outcome.adapter!, weights: await finalAdapter(outcome, WEIGHTS), rows: await rowsOf(path) };
  }, 300_000);
  afterAll(() => rm(root, { recursive: true }));

  async function recorded(name: string): Promise<string> {
    const parent = await mkdtemp(join(root, `${name}-`));
    const path = await newRun(parent);
    for (const folder of ['rollouts', 'evaluations']) await cp(join(whole.path, folder), join(path, folder), { recursive: true });
    return path;
  }

  it('continues by itself to the same bits when one of two processes is killed, near the adapter that one process trains', async () => {
    const two = () => openNano({ options: { devices: ['cpu', 'cpu'] } });
    const uninterrupted = await trainSmall(await recorded('two'), { backend: two, config: CONFIG });
    const weights = await finalAdapter(uninterrupted, WEIGHTS);
    const path = await recorded('rank');
    const workers: TorchBackend[] = [];
    const backend = async () => {
      workers.push(await two());
      return workers.at(-1)!;
    };
    const onPhase = (phase: string, step: number) => {
      if (phase === 'backward' && step === 4 && workers.length === 1) process.kill(workers[0]!.pids[1]!, 'SIGKILL');
    };
    const outcome = await trainSmall(path, { backend, config: CONFIG, observer: { onPhase } });
    expect(await finalAdapter(outcome, WEIGHTS)).toEqual(weights);
    const events = await eventsOf(path);
    expect(events.map(({ kind }) => kind)).toEqual(['resumed', 'backend_lost', 'resumed', 'finished']);
    expect(events[1]!.message).toContain(`rank 1 (pid ${workers[0]!.pids[1]}) was killed (SIGKILL)`);
    expect(distance(readAdapter(outcome.adapter!), readAdapter(whole.adapter))).toBeLessThan(1e-5);
  });

  it('resumes to the same bits after the whole process was killed', async () => {
    const path = await recorded('process');
    for (const phases of [20, 55]) {
      const child = startSmall(path, { config: CONFIG, backend: 'torch' });
      await untilPhases(child, phases);
      child.kill('SIGKILL');
      await once(child, 'close');
      expect(child.signalCode).toBe('SIGKILL');
    }
    const outcome = await finishSmall(path, { config: CONFIG, backend: 'torch' });
    expect(outcome.reason).toBe('finished');
    expect(await finalAdapter(outcome, WEIGHTS)).toEqual(whole.weights);
    expect(await rowsOf(path)).toEqual(whole.rows);
    expect((await readdir(path, { recursive: true })).filter((name) => /tmp|lock/.test(name))).toEqual([]);
  });

  it('resumes to the same bits, with a credit that has a state, after the whole process was killed three times', LIMIT, async () => {
    const options = { config: CONFIG, backend: 'torch', hasOwnCredit: true } as const;
    const undisturbed = await recorded('credit-whole');
    const { adapter } = await finishSmall(undisturbed, options);
    const path = await recorded('credit');
    for (const phases of [20, 45, 45]) {
      const child = startSmall(path, options);
      await untilPhases(child, phases);
      child.kill('SIGKILL');
      await once(child, 'close');
      expect(child.signalCode).toBe('SIGKILL');
    }
    const outcome = await finishSmall(path, options);
    expect(outcome).toMatchObject({ reason: 'finished', step: CONFIG.steps });
    expect(readAdapter(outcome.adapter!)).toEqual(readAdapter(adapter!));
    expect(await rowsOf(path)).toEqual(await rowsOf(undisturbed));
    const means = (await rowsOf(path)).flatMap((row) => (row['credit/mean'] === undefined ? [] : [row['credit/mean']]));
    expect(new Set(means).size).toBe(CONFIG.steps);
    // Another credit trains other weights.
    expect(readAdapter(outcome.adapter!)).not.toEqual(readAdapter(whole.adapter));
  });
});
