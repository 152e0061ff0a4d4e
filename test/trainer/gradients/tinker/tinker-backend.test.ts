import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ForwardOptions, GradientBackend } from '../../../../src/trainer/gradient-backend.ts';
import { calibrateReduction } from '../../../../src/trainer/gradients/tinker/calibrate-reduction.ts';
import { type EngineService, engineService } from '../../../tinker/service/engine-service.ts';
import { refusal } from '../../../contracts/gradient-subject.ts';
import { largestDifference, smallBatch, someGradient } from '../../../contracts/gradient-cases.ts';
import { openNano } from '../embedded/nano-backend.ts';
import { openTinker, type TinkerRun } from './tinker-run.ts';

const { signal } = new AbortController();
const ADAM = { learningRate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0.01, maxGradNorm: null };
const ON: ForwardOptions = { retain: false, adapter: 'on', signal };
const SERVERS = [
  { name: 'a server that sums, in protobuf', isAveraging: false, reduction: 'sum', padTo: 1 },
  { name: 'a server that averages, in JSON', isAveraging: true, reduction: 'mean', padTo: 8 },
] as const;

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), 'vf-tinker-backend-'))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Signs and sizes as any loss may give. */
async function step(backend: GradientBackend, phase: number): Promise<number> {
  const batch = smallBatch(backend.adapter.vocabularySize, 1);
  const { batchId } = await backend.forward(batch, { ...ON, retain: true });
  await backend.backward(batchId, { dLogProbs: someGradient(batch.targets.length, phase) });
  return (await backend.optimStep(ADAM)).gradNorm;
}

const logProbs = async (backend: GradientBackend, options = ON) =>
  (await backend.forward(smallBatch(backend.adapter.vocabularySize, 1), options)).logProbs;

describe.each(SERVERS)('TinkerBackend at $name', ({ isAveraging, reduction, padTo }) => {
  let service: EngineService;
  let run: TinkerRun;
  beforeAll(async () => {
    service = await engineService({ isAveraging });
    run = await openTinker(service.url, { reduction, padTo });
  });
  afterAll(async () => {
    await run[Symbol.asyncDispose]();
    await service[Symbol.asyncDispose]();
  });

  it('finds the reduction out', async () => {
    const model = await run.session.createModel(
      { baseModel: 'base', rank: 1, seed: 1, layers: { attention: true, mlp: true, unembedding: false } },
      signal,
    );
    expect(await calibrateReduction(model, signal)).toBe(reduction);
    await run.session.unload(model, signal);
  });

  it('gives the log-probs, the norms and the steps of the embedded backend, whatever the signs of the gradient', async () => {
    const local = await openNano({ adapter: { seed: 5, alpha: 32 } });
    const { backend } = run;
    expect(largestDifference(await logProbs(backend), await logProbs(local))).toBeLessThan(1e-6);
    for (const phase of [0, 1, 2]) {
      const [norm, expected] = [await step(backend, phase), await step(local, phase)];
      expect(Math.abs(norm / expected - 1)).toBeLessThan(1e-5);
    }
    expect(largestDifference(await logProbs(backend), await logProbs(local))).toBeLessThan(1e-3);
    expect(largestDifference(await logProbs(backend, { ...ON, adapter: 'off' }), await logProbs(local, { ...ON, adapter: 'off' }))).toBeLessThan(
      1e-6,
    );
    await local.close();
  });

  it('sends the gradient and the step before it waits for either', async () => {
    const from = service.asked.length;
    await step(run.backend, 4);
    const routes = service.asked.slice(from).map(({ route }) => route);
    // After the forward pass and its result.
    expect(routes.filter((route) => route !== 'session_heartbeat').slice(2, 4)).toEqual(['forward_backward', 'optim_step']);
  });

  it('returns to the copy that it holds', async () => {
    const { backend } = run;
    expect(await refusal(backend.restore())).toBe('bad_input');
    const before = await logProbs(backend);
    await backend.hold();
    await step(backend, 5);
    expect(largestDifference(await logProbs(backend), before)).toBeGreaterThan(1e-4);
    await backend.restore();
    expect(await logProbs(backend)).toEqual(before);
  });

  it('saves a state by reference, and repeats a step from it bit for bit in another session', async () => {
    const directory = join(folder, `${reduction}-state`);
    await run.backend.saveState(directory);
    expect(JSON.parse(readFileSync(join(directory, 'tinker.json'), 'utf8'))).toMatchObject({
      kind: 'state',
      path: expect.stringMatching(/^tinker:\/\//),
      service: service.url,
      base_model: 'base',
      rank: 3,
      alpha: 32,
      expires_at: null,
    });
    await step(run.backend, 6);
    const expected = await logProbs(run.backend);
    await using other = await openTinker(service.url, { reduction, padTo, ttlHours: 1 });
    await other.backend.loadState(directory);
    await step(other.backend, 6);
    expect(await logProbs(other.backend)).toEqual(expected);
    const { directory: adapter, kind } = await other.backend.saveAdapter(join(folder, `${reduction}-adapter`));
    expect(kind).toBe('remote');
    const { saved_at: saved, expires_at: expires } = JSON.parse(readFileSync(join(adapter, 'tinker.json'), 'utf8')) as Record<string, string>;
    expect(Date.parse(expires!) - Date.parse(saved!)).toBe(3_600_000);
    expect(await refusal(other.backend.loadState(adapter))).toBe('bad_input');
  });

  it('gives the log-probs of other ids, and their gradient', async () => {
    const local = await openNano({ adapter: { seed: 5, alpha: 32 } });
    await using fresh = await openTinker(service.url, { reduction, padTo });
    const batch = smallBatch(local.adapter.vocabularySize, 1);
    const other = { ...batch, targetIds: batch.targets.map((_, i) => (7 * i + 3) % 100) };
    const dLogProbs = someGradient(batch.targets.length);
    const norms: number[] = [];
    const found: Float32Array[] = [];
    for (const backend of [local, fresh.backend]) {
      const { batchId, logProbs: values } = await backend.forward(other, { ...ON, retain: true });
      found.push(values);
      await backend.backward(batchId, { dLogProbs });
      norms.push((await backend.optimStep(ADAM)).gradNorm);
    }
    expect(largestDifference(found[0]!, found[1]!)).toBeLessThan(1e-6);
    expect(Math.abs(norms[0]! / norms[1]! - 1)).toBeLessThan(1e-5);
    await local.close();
  });
});

describe('TinkerBackend', () => {
  it('refuses what the API lacks, and skips a gradient that is not finite without sending it', async () => {
    await using service = await engineService();
    await using run = await openTinker(service.url, { reduction: 'sum' });
    const { backend } = run;
    const batch = smallBatch(backend.adapter.vocabularySize, 1);
    expect(await refusal(backend.forward({ ...batch, temperature: 0.7 }, ON))).toBe('bad_input');
    expect(await refusal(backend.forward(batch, { ...ON, entropy: true }))).toBe('bad_input');
    expect(await refusal(backend.optimStep(ADAM))).toBe('bad_input');
    const { batchId } = await backend.forward(batch, { ...ON, retain: true });
    await backend.backward(batchId, { dLogProbs: someGradient(batch.targets.length).fill(NaN, 0, 1) });
    expect(await backend.optimStep(ADAM)).toEqual({ step: 0, gradNorm: NaN, skipped: true });
    expect(service.to('optim_step')).toEqual([]);
    expect(await refusal(backend.backward(batchId, { dLogProbs: new Float32Array(1) }))).toBe('bad_input');
  });

  it('takes the log-probs of the base from the sampler where there is no place for a second model', async () => {
    await using service = await engineService({ places: 1 });
    await using run = await openTinker(service.url, { reduction: 'sum' });
    const expected = await logProbs(run.backend);
    expect(largestDifference(await logProbs(run.backend, { ...ON, adapter: 'off' }), expected)).toBeLessThan(1e-5);
    expect(run.notices.join()).toContain('no place for another adapter');
  });

  it('has the copy before the one that it holds deleted, and asks no more where nothing can be', async () => {
    await using service = await engineService();
    await using run = await openTinker(service.url, { reduction: 'sum' });
    for (const phase of [0, 1, 2]) {
      await run.backend.hold();
      await step(run.backend, phase);
    }
    await expect.poll(() => service.asked.filter(({ route }) => route.startsWith('training_runs/')).map(({ route }) => route)).toHaveLength(1);
    const [deleted] = service.asked.filter(({ route }) => route.startsWith('training_runs/'));
    expect(deleted!.route).toMatch(/^training_runs\/m\d+\/checkpoints\/weights\/run-1-held1$/);
    await run.backend.restore();
  });

  it('is lost after a restart of the service, and a new session goes on from the saved state', async () => {
    await using service = await engineService();
    await using run = await openTinker(service.url, { reduction: 'sum' });
    const directory = join(folder, 'restarted');
    await step(run.backend, 0);
    await run.backend.saveState(directory);
    await step(run.backend, 1);
    const expected = await logProbs(run.backend);
    await service.restart();
    expect(await refusal(logProbs(run.backend))).toBe('lost');
    expect(await refusal(run.backend.saveState(join(folder, 'never')))).toBe('lost');
    await using next = await openTinker(service.url, { reduction: 'sum' });
    await next.backend.loadState(directory);
    await step(next.backend, 1);
    expect(await logProbs(next.backend)).toEqual(expected);
  });

  it('says that a service returns no norm, which calibration needs', async () => {
    await using service = await engineService({ hasNorms: false });
    await using run = await openTinker(service.url, { reduction: 'sum' });
    const model = await run.session.createModel(
      { baseModel: 'base', rank: 1, seed: 1, layers: { attention: true, mlp: true, unembedding: false } },
      signal,
    );
    await expect(calibrateReduction(model, signal)).rejects.toThrow(/returns no norm.*backend\.reduction = "sum"/);
  });
});
