import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { planGpus } from '../../src/sessions/training/plan-gpus.ts';
import { serverFixedBytes, trainerMemory } from '../../src/launch/memory-estimate.ts';
import { modelShape, parameterCount, readModelShape } from '../../src/launch/model-shape.ts';
import { fakeNvidiaSmi } from '../cli/train/fake-nvidia-smi.ts';
import { someConfig } from '../trainer/some-config.ts';

const NANO = join(import.meta.dirname, '../../recipes/vlm/model');
const settings = { rank: 16, targets: ['q_proj', 'v_proj'], maxTokens: 8192, checkpointing: true, bytesPerWeight: 2 };

/** Numbers in the tensors of a safetensors file. */
function numbersIn(path: string): number {
  const file = readFileSync(path);
  const header = JSON.parse(file.toString('utf8', 8, 8 + Number(file.readBigUInt64LE(0)))) as Record<string, { shape?: number[] }>;
  return Object.values(header).reduce((sum, { shape }) => sum + (shape === undefined ? 0 : shape.reduce((size, side) => size * side, 1)), 0);
}

/** The config.json of Qwen2.5-VL-7B as newer files have it: the decoder in a table of its own. */
const NESTED = {
  model_type: 'qwen2_5_vl',
  tie_word_embeddings: false,
  text_config: {
    model_type: 'qwen2_5_vl_text',
    hidden_size: 3584,
    intermediate_size: 18_944,
    num_hidden_layers: 28,
    num_attention_heads: 28,
    num_key_value_heads: 4,
    vocab_size: 152_064,
  },
  vision_config: {
    model_type: 'qwen2_5_vl',
    depth: 32,
    hidden_size: 1280,
    intermediate_size: 3420,
    out_hidden_size: 3584,
    patch_size: 14,
    spatial_merge_size: 2,
  },
};

describe('the parameters of a model that sees', () => {
  it.each([
    ['Qwen/Qwen2.5-VL-3B-Instruct', 3_754_622_976],
    ['Qwen/Qwen2.5-VL-7B-Instruct', 8_292_166_656],
    ['Qwen/Qwen3-VL-4B-Instruct', 4_437_815_808],
    ['Qwen/Qwen3-VL-8B-Instruct', 8_767_123_696],
  ])('of %s are those of its files', (name, count) => {
    expect(parameterCount(readModelShape(name)!)).toBe(count);
  });

  it('are those of the tensors of this repository’s own', () => {
    expect(parameterCount(readModelShape(NANO)!)).toBe(numbersIn(join(NANO, 'model.safetensors')));
  });

  it('are the same wherever a config.json describes the decoder', () => {
    const { text_config: text, ...others } = NESTED;
    const [nested, flat] = [modelShape('x', NESTED), modelShape('x', { ...text, ...others })];
    expect(nested).toEqual(flat);
    expect(parameterCount(nested)).toBe(8_292_166_656);
  });

  it('are unknown if a size of the tower is missing', () => {
    expect(() => modelShape('x', { ...NESTED, vision_config: { depth: 2 } })).toThrow('hidden_size in the config.json of x (vision_config) must be');
  });
});

describe('the memory of a model that sees', () => {
  it.each(['Qwen2.5-VL-7B', 'Qwen3-VL-8B'])('holds the tower of %s and its pictures, for worker and server', (name) => {
    const { tower, ...blind } = readModelShape(name)!;
    const sees = { ...blind, tower: tower! };
    const weights = 2 * tower!.parameters;
    const [own, text] = [trainerMemory(sees, settings), trainerMemory(blind, settings)];
    expect(own.weights - text.weights).toBe(weights);
    // The tower's output for every token, and those of its inner layers.
    expect(own.activations - text.activations).toBe(8192 * 2 * blind.hidden * (1 + tower!.furtherOutputs));
    expect(serverFixedBytes(sees) - serverFixedBytes(blind)).toBeGreaterThan(weights + 2 ** 30);
    // Every worker has the whole tower, also where the layers are divided.
    const divided = (shape: typeof blind) => trainerMemory(shape, { ...settings, shards: 4 }).weights;
    expect(divided(sees) - divided(blind)).toBe(weights);
  });

  it('is planned for a run, and refused where only the decoder would fit', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vf-sees-'));
    try {
      const { vision_config: _, ...blind } = NESTED;
      const plan = (config: object, gib: number) => {
        writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
        fakeNvidiaSmi(folder, [{ gib }]);
        const variables = { PATH: `${folder}:${process.env['PATH']}` };
        const launched = { model: { path: folder }, policy: { base_url: null, launch: {} } };
        return planGpus(someConfig(launched), { contextTokens: 4596, variables, signal: new AbortController().signal });
      };
      const [sees, text] = [await plan(NESTED, 80), await plan(blind, 80)];
      expect(sees.lines[0]).toMatch(/^GPU memory for .* with its vision tower, estimated in GiB/);
      expect(text.lines[0]).not.toContain('tower');
      expect(sees.gpuShare).toBeGreaterThan(0.2);
      expect((await plan(blind, 47)).lines[0]).toMatch(/^GPU memory for/);
      await expect(plan(NESTED, 47)).rejects.toThrow(/ does not fit: /);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
