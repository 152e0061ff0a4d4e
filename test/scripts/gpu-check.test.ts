import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { gpuCheckPlan } from '../../scripts/gpu-check/plan.ts';

describe('gpuCheckPlan', () => {
  it('is what scripts/gpu-check/plan.json holds: run scripts/gpu-check/plan.ts after a change of the estimate', () => {
    const written = JSON.parse(readFileSync(join(import.meta.dirname, '../../scripts/gpu-check/plan.json'), 'utf8')) as unknown;
    expect(written).toEqual(gpuCheckPlan());
  });
});
