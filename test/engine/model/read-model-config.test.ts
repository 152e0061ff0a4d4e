import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { EngineInputError } from '../../../src/engine/engine-errors.ts';
import { temporaryFolder } from '../../trainer/publisher/adapter-files.ts';
import { TINY_CONFIG } from './tiny-model.ts';
import { readModelConfig } from '../from-directory.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());
let count = 0;

/** A directory with these fields over TINY_CONFIG; undefined removes one. */
function directoryWith(fields: Readonly<Record<string, unknown>>, generation?: unknown): string {
  const directory = join(folder.path, `c${count++}`);
  mkdirSync(directory);
  writeFileSync(join(directory, 'config.json'), JSON.stringify({ ...TINY_CONFIG, ...fields }));
  if (generation !== undefined) writeFileSync(join(directory, 'generation_config.json'), JSON.stringify(generation));
  return directory;
}

describe('readModelConfig', () => {
  it('reads the nano base', async () => {
    const path = join(import.meta.dirname, '../../../test/models/nano-base');
    expect(await readModelConfig(path)).toEqual({
      vocabularySize: 1600,
      hiddenSize: 128,
      intermediateSize: 384,
      layers: 4,
      heads: 4,
      kvHeads: 2,
      headDim: 32,
      maxPositions: 2048,
      rmsNormEpsilon: 1e-6,
      ropeTheta: 10_000,
      tiedEmbeddings: true,
      endTokenIds: [1539],
      path,
    });
  });

  it.each([
    ['the old spelling', { rope_theta: 1_000_000, rope_scaling: null }],
    ['the old spelling with a scaling that changes nothing', { rope_theta: 1_000_000, rope_scaling: { type: 'default' } }],
    ['the new spelling', { rope_theta: undefined, rope_parameters: { rope_theta: 1_000_000, rope_type: 'default' } }],
    ['both spellings, where the new one counts', { rope_theta: 10_000, rope_parameters: { rope_theta: 1_000_000, rope_type: 'default' } }],
  ])("reads the rotations' base in %s", async (_, fields) => {
    expect((await readModelConfig(directoryWith(fields))).ropeTheta).toBe(1_000_000);
  });

  it('uses the default of transformers where a field is absent or null', async () => {
    const bare = {
      head_dim: null,
      rope_theta: undefined,
      rms_norm_eps: null,
      tie_word_embeddings: undefined,
      eos_token_id: null,
      architectures: undefined,
      hidden_act: undefined,
    };
    expect(await readModelConfig(directoryWith(bare))).toMatchObject({
      headDim: 128,
      ropeTheta: 10_000,
      rmsNormEpsilon: 1e-6,
      tiedEmbeddings: false,
      endTokenIds: [],
    });
  });

  it('prefers the end tokens of generation_config.json to those of config.json', async () => {
    expect((await readModelConfig(directoryWith({ eos_token_id: 3 }, { eos_token_id: [5, 6, 5] }))).endTokenIds).toEqual([5, 6]);
    expect((await readModelConfig(directoryWith({ eos_token_id: [3, 4] }, { temperature: 1 }))).endTokenIds).toEqual([3, 4]);
  });

  it('limits the positions to the longest sequence, and never beyond those of the model', async () => {
    const directory = directoryWith({});
    expect((await readModelConfig(directory, { maxModelLen: 32 })).maxPositions).toBe(32);
    for (const maxModelLen of [0, 1.5, 65]) await expect(readModelConfig(directory, { maxModelLen })).rejects.toThrow(/1 to 64 tokens .*, got/);
  });

  it.each([
    ['qwen2', { model_type: 'qwen2' }, 'model_type'],
    ['a mixture of experts', { num_experts: 128 }, 'num_experts'],
    ['another head', { architectures: ['Qwen3ForSequenceClassification'] }, 'architectures'],
    ['biases', { attention_bias: true }, 'attention_bias'],
    ['another activation', { hidden_act: 'gelu' }, 'hidden_act'],
    ['a sliding window', { use_sliding_window: true, sliding_window: 32, max_window_layers: 1 }, 'use_sliding_window'],
    ['a layer with a sliding window', { layer_types: ['full_attention', 'sliding_attention'] }, 'layer_types'],
    ['scaled rotations', { rope_scaling: { rope_type: 'yarn', factor: 4 } }, 'rope_scaling'],
    ['rotations scaled in the new spelling', { rope_parameters: { rope_type: 'linear', rope_theta: 1e4, factor: 2 } }, 'rope_parameters'],
    ['rotations by kind of layer', { rope_parameters: { full_attention: { rope_type: 'default', rope_theta: 1e4 } } }, 'rope_parameters'],
    ['quantized weights', { quantization_config: { quant_method: 'fp8' } }, 'quantization_config'],
    ['a width that is not a multiple of 8', { hidden_size: 20 }, 'hidden_size'],
    ['heads that are not a multiple of 8', { head_dim: 12 }, 'head_dim'],
    ['an MLP that is not a multiple of 8', { intermediate_size: 42 }, 'intermediate_size'],
  ])('refuses %s by name, as unsupported', async (_, fields, key) => {
    const failure = (await readModelConfig(directoryWith(fields)).catch((error: unknown) => error)) as EngineInputError;
    expect(failure).toBeInstanceOf(EngineInputError);
    expect(failure.code).toBe('unsupported');
    expect(failure.message).toMatch(new RegExp(`^${key} in .*config\\.json must be .*, got .*; serve other models with vLLM$`));
  });

  it('accepts a sliding window that no layer uses', async () => {
    const fields = { use_sliding_window: true, sliding_window: 32, max_window_layers: 2, layer_types: null };
    expect((await readModelConfig(directoryWith(fields))).layers).toBe(2);
  });

  it.each([
    ['a missing size', { num_hidden_layers: undefined }, /num_hidden_layers .* whole number .*, got nothing; correct the file/],
    ['a size of another type', { vocab_size: '21' }, /vocab_size .*, got "21"/],
    ['heads that do not share keys evenly', { num_key_value_heads: 3 }, /a divisor of num_attention_heads, 4, got 3/],
    ['an end token beyond the vocabulary', { eos_token_id: 21 }, /token ids from 0 to 20, got 21/],
    ['a negative epsilon', { rms_norm_eps: -1 }, /rms_norm_eps .* above 0, got -1/],
    ['an invalid base of rotations', { rope_theta: 0 }, /rope_theta .* above 1, got 0/],
  ])('refuses %s as broken', async (_, fields, message) => {
    const failure = readModelConfig(directoryWith(fields));
    await expect(failure).rejects.toMatchObject({ code: 'invalid', message: expect.stringMatching(message) });
  });

  it('distinguishes a missing directory, a file and broken JSON, each in one line', async () => {
    const missing = join(folder.path, 'nowhere');
    await expect(readModelConfig(missing)).rejects.toMatchObject({
      code: 'not_found',
      message: `There is no model directory ${missing}; pass the path of a Hugging Face directory with a dense Qwen3 model`,
    });
    const directory = directoryWith({});
    await expect(readModelConfig(join(directory, 'config.json'))).rejects.toThrow(/^config\.json at .* is a file, not a model directory/);
    writeFileSync(join(directory, 'config.json'), '{"model_type":');
    await expect(readModelConfig(directory)).rejects.toThrow(/config\.json is not JSON; a model is/);
    writeFileSync(join(directory, 'config.json'), '[]');
    await expect(readModelConfig(directory)).rejects.toThrow(/config\.json is not a JSON object;/);
    const empty = join(folder.path, 'empty');
    mkdirSync(empty);
    await expect(readModelConfig(empty)).rejects.toMatchObject({ code: 'not_found' });
  });
});
