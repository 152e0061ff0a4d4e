import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  activationBytesPerTokenAndLayer,
  adapterParameterCount,
  cacheBytesPerToken,
  concurrentRollouts,
  GIB,
  largestMicroBatch,
  modelShape,
  parameterCount,
  serverFixedBytes,
  trainerMemory,
} from '../../scripts/memory-estimate.ts';

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

describe('parameterCount', () => {
  it('matches the model cards', () => {
    expect(parameterCount(qwen25)).toBe(3_085_938_688);
    expect(parameterCount(qwen3)).toBe(4_022_468_096);
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

describe('activationBytesPerTokenAndLayer', () => {
  it('is within 0.5 % of what autograd was seen to keep for the worker’s layers in float32', () => {
    // Bytes of distinct storages in saved_tensors_hooks, torch 2.13 CPU: the difference of 3 and 2 layers and of 1,024 and 512 tokens.
    const small = {
      vocab_size: 512,
      hidden_size: 256,
      intermediate_size: 1024,
      num_hidden_layers: 2,
      num_attention_heads: 8,
      num_key_value_heads: 2,
    };
    for (const [type, counted] of [
      ['qwen2', 23_528],
      ['qwen3', 24_848],
    ] as const) {
      const estimate = activationBytesPerTokenAndLayer(modelShape(type, { ...small, model_type: type }), {
        ...half,
        bytesPerWeight: 4,
        checkpointing: false,
      });
      expect(Math.abs(estimate / counted - 1)).toBeLessThan(0.005);
    }
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
  });
});

describe('largestMicroBatch', () => {
  it('fits, and the next larger one does not', () => {
    const settings = { ...half, checkpointing: false };
    const tokens = largestMicroBatch(qwen25, settings, 70 * GIB);
    expect(trainerMemory(qwen25, { ...settings, maxTokens: tokens }).total).toBeLessThanOrEqual(70 * GIB);
    expect(trainerMemory(qwen25, { ...settings, maxTokens: tokens + 1024 }).total).toBeGreaterThan(70 * GIB);
    expect(largestMicroBatch(qwen25, settings, GIB)).toBe(0);
  });
});

describe('concurrentRollouts', () => {
  it('counts whole caches beside the weights', () => {
    expect(cacheBytesPerToken(qwen25)).toBe(36_864);
    expect(concurrentRollouts(qwen25, serverFixedBytes(qwen25) + 2.5 * 1000 * 36_864, 1000)).toBe(2);
    expect(concurrentRollouts(qwen25, GIB, 1000)).toBe(0);
  });
});

describe('scripts/estimate-memory.ts', () => {
  const script = join(import.meta.dirname, '../../scripts/estimate-memory.ts');
  const directory = mkdtempSync(join(tmpdir(), 'estimate-memory-'));
  afterAll(() => rmSync(directory, { recursive: true }));
  const run = (...args: string[]) => spawnSync(process.execPath, ['--conditions=source', script, ...args], { encoding: 'utf8' });

  it('prints the tables of a model directory under a configuration', () => {
    const config = join(directory, 'run.toml');
    writeFileSync(config, '[lora]\nrank = 8\n[backend]\nmax_tokens = 2048\ndtype = "float32"\n');
    const { stdout, status } = run(join(import.meta.dirname, '../models/nano-base'), '--config', config, '--gpus', '1x8,2x4');
    expect(status).toBe(0);
    expect(stdout).toContain('nano-base: worker, LoRA rank 8, micro-batch of 2,048 tokens, 4 bytes per weight');
    expect(stdout).toContain('992,640 parameters x 4 bytes');
    expect(stdout.match(/^[12]x[48] /gm)).toHaveLength(4);
  });

  it('takes from a configuration’s preset what the file leaves open', () => {
    const config = join(directory, 'preset.toml');
    writeFileSync(config, 'preset = "tinker"\n');
    expect(run('qwen3-4b', '--config', config).stdout).toContain('LoRA rank 32, micro-batch of 16,384 tokens');
  });

  it('says in one line what it does not understand', () => {
    expect(run('no-such-model').stderr).toMatch(/^no-such-model is not a model directory.*\n$/);
    expect(run('qwen3-4b', '--gpus', '80').stderr).toBe('--gpus must look like 1x78,2x139, got 80.\n');
    expect(run('qwen3-4b', '--config', join(directory, 'none.toml')).status).toBe(2);
  });
});
