import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { VfError } from '../../../src/core/errors.ts';
import { adaptedModules } from '../../../src/engine/adapters/adapted-modules.ts';
import { writeAdapter } from '../../../src/engine/adapters/write-adapter.ts';
import type { AdaptedName } from '../../../src/engine/model/model-types.ts';
import { checkAdapter } from '../../../src/trainer/publisher/check-adapter.ts';
import { temporaryFolder } from '../../trainer/publisher/adapter-files.ts';
import { readAdapter, readModelConfig } from '../from-directory.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const config = await readModelConfig(join(import.meta.dirname, '../../models/nano-base'));

function adapterOf(targets: readonly AdaptedName[], rank = 3, alpha = 6) {
  const tensors = adaptedModules(config, targets).map(({ path, inputs, outputs }, i) => ({
    path,
    inputs,
    outputs,
    a: Float32Array.from({ length: rank * inputs }, (_, j) => Math.sin(i + j)),
    b: Float32Array.from({ length: outputs * rank }, (_, j) => Math.cos(i + j)),
  }));
  return { tensors, rank, alpha, baseModel: 'some/base' };
}

describe('writeAdapter', () => {
  it('writes what readAdapter reads, to the bit', async () => {
    const directory = join(folder.path, 'deep', 'adapter');
    const adapter = adapterOf(['q_proj', 'o_proj', 'down_proj']);
    await writeAdapter(directory, adapter);
    expect(await readAdapter(directory, config)).toEqual({ directory, rank: 3, alpha: 6, scale: 2, tensors: adapter.tensors });
  });

  it('describes its files so that the check before publishing passes', async () => {
    const directory = join(folder.path, 'published');
    const { tensors, ...rest } = adapterOf(['v_proj', 'gate_proj']);
    const files = await writeAdapter(directory, { tensors, ...rest });
    for (const { name, bytes, sha256 } of files) {
      const content = readFileSync(join(directory, name));
      expect([bytes, sha256]).toEqual([content.length, createHash('sha256').update(content).digest('hex')]);
    }
    expect(readdirSync(directory).toSorted()).toEqual(files.map(({ name }) => name).toSorted());
    const modules = tensors.map(({ path, inputs, outputs }) => ({ path, inFeatures: inputs, outFeatures: outputs }));
    const description = { rank: 3, alpha: 6, baseModel: 'some/base', modules, vocabularySize: config.vocabularySize };
    await checkAdapter({ kind: 'files', directory, rank: 3, alpha: 6, files }, description, new AbortController().signal);
  });

  it('says everything that PEFT would otherwise fill in, and names the base', async () => {
    const directory = join(folder.path, 'described');
    await writeAdapter(directory, adapterOf(['up_proj', 'k_proj'], 4, 0.5));
    const written = JSON.parse(readFileSync(join(directory, 'adapter_config.json'), 'utf8')) as Record<string, unknown>;
    const expected = {
      peft_type: 'LORA',
      task_type: 'CAUSAL_LM',
      r: 4,
      lora_alpha: 0.5,
      target_modules: ['k_proj', 'up_proj'],
      base_model_name_or_path: 'some/base',
      bias: 'none',
    };
    expect(written).toMatchObject(expected);
  });

  it('refuses a directory that exists, and leaves it as it was', async () => {
    const directory = join(folder.path, 'taken');
    mkdirSync(directory);
    writeFileSync(join(directory, 'mine'), 'x');
    await expect(writeAdapter(directory, adapterOf(['q_proj']))).rejects.toMatchObject({ code: 'name_taken' });
    expect(readdirSync(directory)).toEqual(['mine']);
  });

  it('leaves nothing behind where it cannot write', async () => {
    writeFileSync(join(folder.path, 'file'), '');
    const before = readdirSync(folder.path);
    const failure = writeAdapter(join(folder.path, 'file', 'adapter'), adapterOf(['q_proj']));
    await expect(failure).rejects.toBeInstanceOf(VfError);
    await expect(failure).rejects.toThrow(/nothing was left behind$/);
    expect(readdirSync(folder.path)).toEqual(before);
  });
});
