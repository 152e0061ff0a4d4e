import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { adapterParameters, baseShape, estimateDisk } from '../../src/doctor/estimate-disk.ts';
import { resolveTrainingConfig } from '../../src/trainer/config/resolve-config.ts';

const nano = baseShape(JSON.parse(readFileSync(join(import.meta.dirname, '../models/nano-base/config.json'), 'utf8')) as Record<string, unknown>)!;

function config(table: Readonly<Record<string, unknown>>) {
  const needed = { environment: { id: 'search-r1' }, model: { path: 'base' }, policy: { base_url: 'http://127.0.0.1:8000/v1' } };
  return resolveTrainingConfig([{ source: 'test', table: { ...needed, ...table } }]).config;
}

describe('adapterParameters', () => {
  it('counts A and B of every adapted layer', () => {
    // By hand: q 128→128, k and v 128→64, o 128→128, gate and up 128→384, down 384→128; four layers.
    expect(adapterParameters(nano, 1, ['q_proj'])).toBe(4 * 256);
    expect(adapterParameters(nano, 8, ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'])).toBe(
      4 * 8 * (256 + 192 + 192 + 256 + 512 * 3),
    );
  });

  it('is the 33 million that Qwen3-4B has at rank 16', () => {
    const qwen = {
      hidden_size: 2560,
      intermediate_size: 9728,
      num_hidden_layers: 36,
      num_attention_heads: 32,
      num_key_value_heads: 8,
      head_dim: 128,
    };
    const all = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'];
    expect(adapterParameters(baseShape(qwen)!, 16, all)).toBe(33_030_144);
  });
});

describe('baseShape', () => {
  it('is unknown where the numbers are not there', () => {
    expect(baseShape({ hidden_size: 128 })).toBeNull();
  });
});

describe('estimateDisk', () => {
  const adapter = (rank: number) => 4 * adapterParameters(nano, rank, config({}).lora.targets);

  it('counts adapter and two Adam moments in each checkpoint kept and in the one being written', () => {
    const estimate = estimateDisk(config({ steps: 100, lora: { rank: 8 }, checkpoint: { every: 10, keep: 2 } }), nano, 1000);
    expect(estimate).toMatchObject({ checkpointBytes: 3 * 3 * adapter(8), adapterBytes: 2 * adapter(8) });
    expect(estimate.totalBytes).toBe(estimate.adapterBytes + estimate.checkpointBytes + estimate.rolloutBytes);
  });

  it('grows with everything that is kept', () => {
    const of = (checkpoint: object) => estimateDisk(config({ steps: 100, checkpoint: { every: 10, ...checkpoint } }), nano, 1000);
    expect(of({ keep: 0 }).checkpointBytes).toBe(11 * 3 * adapter(16));
  });

  it('counts kept rollouts of old steps compressed and within their bound, and what a resume may need above it', () => {
    const of = (checkpoint: object) =>
      estimateDisk(config({ steps: 100, checkpoint: { every: 10, keep: 2, ...checkpoint } }), nano, 1000).rolloutBytes;
    const needed = of({ keep_rollouts: false });
    expect(of({}) / needed).toBeCloseTo((30 + 70 * 0.25) / 30);
    expect(of({ max_rollouts_gb: 1e-9 })).toBe(needed);
    expect(of({ max_rollouts_gb: (1.5 * needed) / 1e9 })).toBeCloseTo(1.5 * needed);
  });
});
