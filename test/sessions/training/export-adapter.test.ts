/** The client against this package's own server: what is trained through the API is what the embedded backend trains, and comes home as files. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { modelPath } from '../../../src/data/bundled-models.ts';
import { exportAdapter } from '../../../src/sessions/training/export-adapter.ts';
import { smallBatch, someGradient } from '../../contracts/gradient-cases.ts';
import { EmbeddedBackend } from '../../../src/trainer/gradients/embedded/embedded-backend.ts';
import { serveNano, type Served } from '../../server/tinker/tinker-caller.ts';
import { ALL_TARGETS } from '../../trainer/gradients/embedded/nano-adapter.ts';
import { openTinker } from '../../trainer/gradients/tinker/tinker-run.ts';

const { signal } = new AbortController();
const ADAM = { learningRate: 0.01, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weightDecay: 0, maxGradNorm: null };
let folder: string;
let served: Served;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'vf-export-adapter-'));
  served = await serveNano();
});
afterAll(async () => {
  await served.server.close({ graceMs: 0 });
  await served.engine.close();
  rmSync(folder, { recursive: true });
});

describe('exportAdapter', () => {
  it(
    'writes the adapter that a service trained, with the bytes that the embedded backend writes for the same steps',
    { timeout: 60_000 },
    async () => {
      const local = await EmbeddedBackend.start({
        modelPath: modelPath('nano-base'),
        threads: 2,
        adapter: { rank: 3, alpha: 32, targets: ALL_TARGETS, seed: 5, initial: null },
        signal,
      });
      await using run = await openTinker(served.server.url, { reduction: 'sum', baseModel: 'nano-base' });
      const batch = smallBatch(1000, 1);
      for (const backend of [local, run.backend]) {
        const { batchId } = await backend.forward(batch, { retain: true, adapter: 'on', signal });
        await backend.backward(batchId, { dLogProbs: someGradient(batch.targets.length) });
        expect((await backend.optimStep(ADAM)).gradNorm).toBeGreaterThan(0);
      }
      const { directory: remote } = await run.backend.saveAdapter(join(folder, 'remote'));
      const { directory: expected } = await local.saveAdapter(join(folder, 'local'));
      const output = join(folder, 'home');
      expect(await exportAdapter({ directory: remote, output, apiKey: null, signal })).toMatch(/^tinker:\/\/.*\/sampler_weights\//);
      expect(largest(weightsOf(output), weightsOf(expected))).toBeLessThan(1e-4);
      expect(JSON.parse(readFileSync(join(output, 'adapter_config.json'), 'utf8'))).toMatchObject({ peft_type: 'LORA', r: 3, lora_alpha: 32 });
      await expect(exportAdapter({ directory: remote, output, apiKey: null, signal })).rejects.toThrow('already exists');
      await local.close();
    },
  );

  it('says that a folder names no adapter at a service', async () => {
    const empty = join(folder, 'empty');
    mkdirSync(empty);
    await expect(exportAdapter({ directory: empty, output: join(folder, 'never'), apiKey: null, signal })).rejects.toThrow(
      /No tinker\.json in .*empty/,
    );
  });
});

function weightsOf(directory: string): Float32Array {
  const bytes = readFileSync(join(directory, 'adapter_model.safetensors'));
  return new Float32Array(new Uint8Array(bytes.subarray(8 + Number(bytes.readBigUInt64LE(0)))).buffer);
}

function largest(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length);
  return a.reduce((most, value, i) => Math.max(most, Math.abs(value - b[i]!)), 0);
}
