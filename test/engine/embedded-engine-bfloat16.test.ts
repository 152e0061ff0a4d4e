/** The nano model cut to bfloat16, in files of bfloat16 and in files of float32 with the same numbers: two engines that differ only in memory. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { EmbeddedEngine } from '../../src/engine/embedded-engine.ts';
import { openSafetensors } from '../../src/files/open-safetensors.ts';
import { safetensorsFile, temporaryFolder, tensor, type WrittenTensor } from '../trainer/publisher/adapter-files.ts';
import { mixedRequests, NANO, openNano, result, trainerOptions } from './nano-requests.ts';

const folder = temporaryFolder();
const directories = { bfloat16: join(folder.path, 'bfloat16'), float32: join(folder.path, 'float32') };

async function writeTwins(): Promise<void> {
  const path = join(NANO, 'model.safetensors');
  const { file, header } = await openSafetensors(path);
  await file.close();
  const bytes = readFileSync(path);
  const [halves, wholes] = [new Map<string, WrittenTensor>(), new Map<string, WrittenTensor>()];
  for (const { name, shape, start, end } of header.tensors) {
    const bits = new Uint32Array(bytes.buffer.slice(bytes.byteOffset + start, bytes.byteOffset + end)).map((each) => each & 0xffff0000);
    const numbers = new Float32Array(bits.buffer);
    halves.set(name, tensor(shape, numbers, 'BF16'));
    wholes.set(name, tensor(shape, numbers));
  }
  for (const directory of Object.values(directories)) cpSync(NANO, directory, { recursive: true });
  writeFileSync(join(directories.bfloat16, 'model.safetensors'), safetensorsFile(halves));
  writeFileSync(join(directories.float32, 'model.safetensors'), safetensorsFile(wholes));
}

describe('EmbeddedEngine over bfloat16 files', () => {
  let bfloat16: EmbeddedEngine;
  let float32: EmbeddedEngine;

  beforeAll(async () => {
    await writeTwins();
    bfloat16 = await openNano({ modelPath: directories.bfloat16 });
    float32 = await openNano({ modelPath: directories.float32 });
  });
  afterAll(async () => {
    await bfloat16.close();
    await float32.close();
    folder.remove();
  });

  it('takes 2 bytes less for each weight of a matrix', () => {
    const { layers, hiddenSize, vocabularySize, intermediateSize, heads, kvHeads, headDim } = float32.config;
    const layer = hiddenSize * headDim * (2 * heads + 2 * kvHeads) + 3 * hiddenSize * intermediateSize;
    const saved = 2 * (vocabularySize * hiddenSize + layers * layer);
    expect(float32.stats().memoryBytes - bfloat16.stats().memoryBytes).toBe(saved);
  });

  it('generates what float32 files give, on threads and in batches', async () => {
    const requests = mixedRequests(17, 3);
    const [got, wanted] = await Promise.all([bfloat16, float32].map((engine) => Promise.all(requests.map((request) => engine.generate(request)))));
    expect(got!.map(result)).toEqual(wanted!.map(result));
  });

  it('trains to the adapter that float32 files give', async () => {
    const ids = Int32Array.from({ length: 7 * 31 }, (_, i) => 20 + ((i * i) % 1500));
    const offsets = Int32Array.from({ length: 8 }, (_, i) => i * 31);
    const targets = Int32Array.from(ids.keys()).filter((place) => place % 31 > 12);
    const dLogProbs = Float32Array.from(targets, (_, i) => Math.cos(i));
    const adam = { learningRate: 1e-2, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 };
    const train = async (engine: EmbeddedEngine) => {
      const trainer = await engine.createTrainer(trainerOptions());
      const steps: unknown[] = [];
      for (let step = 0; step < 3; step++) {
        const { batch, ...found } = await trainer.forward({ ids, offsets, targets, temperature: 1 }, { adapter: 'on', retain: true, entropy: true });
        await trainer.backward(batch, { dLogProbs, dEntropy: null });
        steps.push(found, await trainer.step(adam));
      }
      const state = trainer.read();
      await trainer.close();
      return { steps, state };
    };
    const wanted = await train(float32);
    expect(wanted.state.tensors.some(({ b }) => b.some((value) => value !== 0))).toBe(true);
    expect(await train(bfloat16)).toEqual(wanted);
  });
});
