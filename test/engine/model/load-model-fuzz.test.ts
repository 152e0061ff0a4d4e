import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { instantiateKernels } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';
import { ALL_FLOAT32, modelBytes } from '../../../src/engine/model/model-layout.ts';
import { temporaryFolder } from '../../trainer/publisher/adapter-files.ts';
import { damage, damaged, nullIfRefused } from './damaged-file.ts';
import { writeTinyModel } from './tiny-model.ts';
import { loadModel } from '../from-directory.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

describe('loadModel, of a damaged directory', () => {
  it('loads it, or refuses it in one line and gives its memory back', async () => {
    const { directory: whole } = writeTinyModel(join(folder.path, 'tiny'));
    const names = ['config.json', 'model.safetensors'] as const;
    const directory = join(folder.path, 'damaged-model');
    mkdirSync(directory);
    const { module } = loadKernelsModule();
    const { signal } = new AbortController();
    const memory = new SharedMemory();
    const kernels = instantiateKernels(module, memory.memory);
    const outcomes = { read: 0, refused: 0 };
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...names), damage, async (name, one) => {
        for (const each of names) writeFileSync(join(directory, each), readFileSync(join(whole, each)));
        writeFileSync(join(directory, name), damaged(readFileSync(join(whole, name)), one));
        const before = memory.used;
        const model = await loadModel(directory, { memory, kernels, signal }).catch(nullIfRefused);
        outcomes[model === null ? 'refused' : 'read']++;
        expect(memory.used - before).toBe(model === null ? 0 : modelBytes(model.config, ALL_FLOAT32));
      }),
      // A flipped bit of a weight leaves a model that reads; an empty file is none.
      {
        numRuns: 80,
        examples: [
          [names[1], { at: 0.999, kind: 'flip', bytes: Uint8Array.of(0) }],
          [names[1], { at: 0, kind: 'cut', bytes: Uint8Array.of(0) }],
        ],
      },
    );
    expect(Math.min(outcomes.read, outcomes.refused)).toBeGreaterThan(0);
  });
});
