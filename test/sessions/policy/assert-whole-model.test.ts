import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readModelConfig } from '../../../src/engine/model/read-model-config.ts';
import { Folder } from '../../../src/files/folder.ts';
import { otherBaseNotice } from '../../../src/sessions/policy/adapter-of-another-base.ts';
import { assertWholeModel } from '../../../src/sessions/policy/assert-whole-model.ts';
import { temporaryFolder, writeAdapter } from '../../trainer/publisher/adapter-files.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
const NANO_BASE = join(import.meta.dirname, '../../models/nano-base');
let count = 0;

function adapterOf(base: string, under = `a${count++}`): string {
  const directory = join(folder.path, under);
  writeAdapter(directory, { config: { base_model_name_or_path: base } });
  return directory;
}

describe('assertWholeModel', () => {
  it('says of an adapter and of a run how training goes on from it', () => {
    const adapter = adapterOf('models/theirs');
    expect(() => assertWholeModel(adapter, {})).toThrow(
      `${adapter} is a LoRA adapter, not a whole model. To train it further, set model.path to its base, models/theirs, and model.initial_adapter to ${adapter}, with lora.rank = 4, lora.alpha = 8, lora.targets = ["q_proj",`,
    );
    const run = join(folder.path, 'run');
    const newest = adapterOf('models/theirs', 'run/checkpoints/step-000002/adapter');
    writeFileSync(join(run, 'run.json'), '{}');
    expect(() => assertWholeModel(run, {})).toThrow(`${run} is the folder of a training run, whose newest adapter is ${newest}, not a whole model.`);
  });

  it('accepts a model, a hub id and a name that is nowhere, which whatever loads them reports', () => {
    for (const model of [NANO_BASE, 'org/name', '/nowhere/at/all']) expect(() => assertWholeModel(model, {})).not.toThrow();
  });
});

describe('readModelConfig of an adapter', () => {
  it('names the settings that take an adapter', async () => {
    await expect(readModelConfig(new Folder(adapterOf('x')))).rejects.toThrow(
      /config\.json does not exist; this is a LoRA adapter: give its base as the model/,
    );
  });
});

describe('otherBaseNotice', () => {
  const copy = join(folder.path, 'copies', 'another-name');
  const changed = join(folder.path, 'copies', 'nano-base');
  mkdirSync(join(folder.path, 'copies'));
  cpSync(NANO_BASE, copy, { recursive: true, dereference: true });
  cpSync(NANO_BASE, changed, { recursive: true, dereference: true });
  writeFileSync(join(changed, 'config.json'), '{"model_type":"qwen3"}');

  it.each<[string, string, string, boolean]>([
    ['the folder in use', NANO_BASE, NANO_BASE, false],
    ['a copy of it under another name', copy, NANO_BASE, false],
    ['another model under the same name', changed, NANO_BASE, true],
    ['a hub id of the same name that is not here', 'Org/Nano-Base', 'other/nano-base', false],
    ['a hub id of another name that is not here', 'org/nano-o2', NANO_BASE, true],
    ['no name', '', NANO_BASE, false],
  ])('compares by files, else by name: %s', async (_, base, model, isOther) => {
    const adapter = adapterOf(base);
    const notice = await otherBaseNotice(adapter, model, { HF_HOME: folder.path });
    const text = `the adapter ${adapter} was trained on another base: its adapter_config.json names ${base}, and it is used on ${model}.`;
    expect(notice?.startsWith(text) ?? false).toBe(isOther);
  });
});
