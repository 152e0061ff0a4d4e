import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { estimateDisk } from '../../src/doctor/estimate-disk.ts';
import { adapterParameterCount, readModelShape } from '../../src/launch/model-shape.ts';
import { resolveTrainingConfig } from '../../src/trainer/config/resolve-config.ts';

const nano = readModelShape(join(import.meta.dirname, '../models/nano-base'))!;

function config(table: Readonly<Record<string, unknown>>) {
  const needed = { environment: { id: 'search-r1' }, model: { path: 'base' }, policy: { base_url: 'http://127.0.0.1:8000/v1' } };
  return resolveTrainingConfig([{ source: 'test', table: { ...needed, ...table } }]).config;
}

describe('estimateDisk', () => {
  const adapter = (rank: number) => 4 * adapterParameterCount(nano, rank, config({}).lora.targets);

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
