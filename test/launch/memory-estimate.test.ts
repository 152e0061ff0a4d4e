import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  cacheBytesPerToken,
  concurrentRollouts,
  GIB,
  largestMicroBatch,
  residentBytes,
  serverFixedBytes,
  trainerMemory,
} from '../../src/launch/memory-estimate.ts';
import { adapterParameterCount, modelShape, parameterCount, readExperts, readModelShape } from '../../src/launch/model-shape.ts';

const TARGETS = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
const tied = { vocab_size: 151_936, tie_word_embeddings: true };
const qwen25 = modelShape('Qwen2.5-3B', {
  ...tied,
  model_type: 'qwen2',
  hidden_size: 2048,
  intermediate_size: 11_008,
  num_hidden_layers: 36,
  num_attention_heads: 16,
  num_key_value_heads: 2,
});
const qwen3 = modelShape('Qwen3-4B', {
  ...tied,
  model_type: 'qwen3',
  hidden_size: 2560,
  intermediate_size: 9728,
  num_hidden_layers: 36,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  head_dim: 128,
});
const half = { rank: 16, targets: TARGETS, bytesPerWeight: 2 };

describe('modelShape', () => {
  it('reads this repository’s own small model, whose parameters it counts exactly', () => {
    const config = readFileSync(join(import.meta.dirname, '../models/nano-base/config.json'), 'utf8');
    const nano = modelShape('nano', JSON.parse(config) as Record<string, unknown>);
    expect(parameterCount(nano)).toBe(992_640);
  });

  it('names the size that is missing', () => {
    expect(() => modelShape('x', { hidden_size: 8, num_attention_heads: 2 })).toThrow('num_hidden_layers in the config.json of x must be');
  });
});

describe('readModelShape', () => {
  it('reads a directory, knows common models by name, and gives null for any other', () => {
    expect(readModelShape(join(import.meta.dirname, '../models/nano-base'))).toMatchObject({ name: 'nano-base', layers: 4 });
    expect(readModelShape('/data/models/Qwen3-4B')).toMatchObject({ name: 'Qwen3-4B', layers: 36, hidden: 2560 });
    expect(readModelShape('Qwen/Qwen2.5-3B-Instruct')).toMatchObject({ feedForward: 11_008, hasQkvBias: true });
    expect(readModelShape('somebody/else')).toBeNull();
  });
});

describe('readExperts', () => {
  it('counts the parameters of a mixture of experts as the model card does, and such a model has no shape of a dense one', () => {
    expect(readExperts('Qwen/Qwen3-30B-A3B')).toEqual({ name: 'Qwen3-30B-A3B', experts: 128, parameters: 30_532_122_624 });
    expect(readModelShape('Qwen/Qwen3-30B-A3B')).toBeNull();
    expect(readExperts('Qwen3-4B')).toBeNull();
  });
});

describe('parameterCount', () => {
  it('matches the model cards', () => {
    expect(parameterCount(qwen25)).toBe(3_085_938_688);
    expect(parameterCount(qwen3)).toBe(4_022_468_096);
    expect(parameterCount(readModelShape('Qwen/Qwen2.5-7B')!)).toBe(7_615_616_512);
    expect(parameterCount(readModelShape('Qwen3-32B')!)).toBe(32_762_123_264);
  });
});

describe('adapterParameterCount', () => {
  it('is linear in the rank and adds up over targets', () => {
    const whole = adapterParameterCount(qwen3, 16, TARGETS);
    expect(whole).toBe(33_030_144);
    expect(adapterParameterCount(qwen3, 32, TARGETS)).toBe(2 * whole);
    expect(TARGETS.reduce((sum, target) => sum + adapterParameterCount(qwen3, 16, [target]), 0)).toBe(whole);
  });

  it('refuses a layer that is not there', () => {
    expect(() => adapterParameterCount(qwen3, 16, ['lm_head'])).toThrow('LoRA targets must be among');
  });
});

describe('trainerMemory', () => {
  it('adds up, grows with the micro-batch, and is smaller with checkpointing', () => {
    const full = trainerMemory(qwen3, { ...half, maxTokens: 16_384, checkpointing: false });
    const saved = trainerMemory(qwen3, { ...half, maxTokens: 16_384, checkpointing: true });
    const { total, ...parts } = full;
    expect(Object.values(parts).reduce((sum, bytes) => sum + bytes, 0)).toBe(total);
    expect(saved.total).toBeLessThan(full.total / 3);
    expect(trainerMemory(qwen3, { ...half, maxTokens: 32_768, checkpointing: false }).activations).toBe(2 * full.activations);
    expect(residentBytes(full)).toBe(full.weights + full.adapter + full.context);
  });
});

describe('largestMicroBatch', () => {
  it('fits, and the next larger one does not', () => {
    const settings = { ...half, checkpointing: false };
    const tokens = largestMicroBatch(qwen25, settings, 70 * GIB);
    expect(trainerMemory(qwen25, { ...settings, maxTokens: tokens }).total).toBeLessThanOrEqual(70 * GIB);
    expect(trainerMemory(qwen25, { ...settings, maxTokens: tokens + 1024 }).total).toBeGreaterThan(70 * GIB);
    expect(largestMicroBatch(qwen25, settings, GIB)).toBe(0);
    expect(largestMicroBatch(qwen25, settings, 70 * GIB, 4596)).toBe(4596);
  });
});

describe('concurrentRollouts', () => {
  it('counts whole caches in addition to the weights', () => {
    expect(cacheBytesPerToken(qwen25)).toBe(36_864);
    expect(concurrentRollouts(qwen25, serverFixedBytes(qwen25) + 2.5 * 1000 * 36_864, 1000)).toBe(2);
    expect(concurrentRollouts(qwen25, GIB, 1000)).toBe(0);
    // Over two cards each holds half of the weights and of the cache.
    expect(concurrentRollouts(qwen25, serverFixedBytes(qwen25, 2) + 1000 * 36_864, 1000, 2)).toBe(2);
  });
});
