import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkModel, initialAdapterFinding } from '../../src/doctor/check-model.ts';
import type { TrainingConfig } from '../../src/schemas/training-config.ts';
import { writeAdapter } from '../trainer/publisher/adapter-files.ts';

const nano = join(import.meta.dirname, '../models/nano-base');
const weights = () => readFileSync(join(nano, 'model.safetensors'));
const json = { 'config.json': '{}', 'tokenizer.json': '{}' };

function folder(files: Readonly<Record<string, string | Buffer>>): string {
  const path = join(mkdtempSync(join(tmpdir(), 'vf-model-')), 'base');
  mkdirSync(path);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(path, name), content);
  return path;
}

function halfOfTheShards(): string {
  const map = { weight_map: { a: 'model-00001-of-00002.safetensors', b: 'model-00002-of-00002.safetensors' } };
  const path = folder({ ...json, 'model.safetensors.index.json': JSON.stringify(map) });
  copyFileSync(join(nano, 'model.safetensors'), join(path, 'model-00001-of-00002.safetensors'));
  return path;
}

const missing = (path: string) => checkModel(path, {}).findings.filter(({ state }) => state === 'missing');

describe('checkModel', () => {
  it('finds nothing missing in a model that loads, and reports its size, shape and window', () => {
    expect(missing(nano)).toEqual([]);
    expect(checkModel(nano, {})).toMatchObject({
      bytes: weights().length,
      window: 2048,
      shape: { layers: 4, hidden: 128, heads: 4, keyValueHeads: 2 },
    });
  });

  it.each([
    ['only a pickle', folder({ ...json, 'pytorch_model.bin': 'x' }), 'weights', /only pickles \(pytorch_model\.bin\)/],
    ['no weights', folder(json), 'weights', /has no weights/],
    ['a Git LFS pointer', folder({ ...json, 'model.safetensors': 'version https://git-lfs.github.com/spec/v1\n' }), 'weights', /Git LFS pointer/],
    ['weights that were cut off', folder({ ...json, 'model.safetensors': weights().subarray(0, -1) }), 'weights', /truncated/],
    ['an empty file of weights', folder({ ...json, 'model.safetensors': '' }), 'weights', /truncated/],
    ['a missing shard', halfOfTheShards(), 'weights', /lacks model-00002-of-00002\.safetensors/],
    ['no tokenizer', folder({ 'config.json': '{}', 'model.safetensors': weights() }), 'tokenizer', /no tokenizer\.json/],
    [
      'a config.json that is not JSON',
      folder({ 'config.json': '{', 'tokenizer.json': '{}', 'model.safetensors': weights() }),
      'model',
      /no readable config\.json/,
    ],
  ])('finds %s', (_, path, name, message) => {
    expect(missing(path)).toEqual([{ name, state: 'missing', text: expect.stringMatching(message) as string, remedy: expect.any(String) as string }]);
  });

  it('treats owner/name as a hub id, and any other path that is not there as a mistake', () => {
    const HF_HOME = folder({});
    expect(checkModel('Qwen/Qwen3-4B', { HF_HOME }).findings).toEqual([
      expect.objectContaining({
        state: 'warning',
        text: expect.stringMatching(/The hub was not asked: the run downloads the model from there at its start \(about 8\.0 GB\)$/),
        remedy: 'hf download Qwen/Qwen3-4B',
      }),
    ]);
    expect(checkModel('me/unheard-of', { HF_HOME }).findings[0]!.text).toContain('(of unknown size)');
    expect(checkModel('me/unheard-of', { HF_HOME, HF_HUB_OFFLINE: '1' }).findings).toMatchObject([{ state: 'missing' }]);
    const commit = '0'.repeat(40);
    const snapshot = join(HF_HOME, 'hub/models--me--unheard-of/snapshots', commit);
    cpSync(nano, snapshot, { recursive: true });
    expect(checkModel('me/unheard-of', { HF_HOME }).findings.map(({ state }) => state)).toEqual(['ok', 'ok', 'ok']);
    expect(missing('/nowhere/at/all')).toMatchObject([{ name: 'model' }]);
  });
});

describe('initialAdapterFinding', () => {
  it('requires a PEFT folder with the rank, alpha and targets of the run, and names the setting to change', async () => {
    const adapter = join(mkdtempSync(join(tmpdir(), 'vf-model-')), 'adapter');
    writeAdapter(adapter, { config: { base_model_name_or_path: nano } });
    const lora: TrainingConfig['lora'] = {
      rank: 4,
      alpha: 8,
      targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
    };
    const found = (initialAdapter: string, wanted: TrainingConfig['lora'], path = 'org/nano-base') =>
      initialAdapterFinding({ model: { path, initialAdapter }, lora: wanted }, {});
    expect(await found(adapter, lora, nano)).toMatchObject({ state: 'ok', text: expect.stringContaining('fits nano-base') });
    expect(await found(adapter, lora)).toMatchObject({ state: 'skipped', text: expect.stringContaining('were not compared') });
    for (const [key, value] of Object.entries({ rank: 16, alpha: 32, targets: ['q_proj'] }))
      expect(await found(adapter, { ...lora, [key]: value })).toMatchObject({
        state: 'missing',
        text: expect.stringContaining(`Set lora.${key} to`),
      });
    expect(await found(nano, lora)).toMatchObject({ state: 'missing', text: expect.stringContaining('adapter_config.json') });
  });
});
