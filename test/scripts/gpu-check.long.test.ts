/** @module-tag long */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { skipReason, torchPython } from '../trainer/gradients/torch/torch-python.ts';

// That the checks pass is tested by .ci/run, which runs the command. Here they must fail.
describe.skipIf(torchPython.path === null)(`scripts/gpu-check${skipReason}`, () => {
  it('fails in the rows that are to find a fault of the worker, and in no other', () => {
    const { stdout, status } = spawnSync(torchPython.path!, [join(import.meta.dirname, 'gpu-check-faults.py')], { encoding: 'utf8' });
    expect(status).toBe(0);
    const failed = JSON.parse(stdout) as Record<string, string[]>;
    const wrong = ['bfloat16', 'float32'].flatMap((dtype) => ['log-probs', 'gradient'].map((what) => `against float64 (sdpa) ${dtype}, ${what}`));
    expect(failed).toMatchObject({
      'attention in a window': wrong,
      'temperature forgotten': wrong,
      'attention across sequences': expect.arrayContaining([...wrong, 'other neighbours float32, log-probs']),
      'gradient of the last batch alone': ['packed and one at a time bfloat16, gradient', 'packed and one at a time float32, gradient'],
      'random state forgotten': ['random numbers after loading', 'a step taken back: random numbers and two further steps'],
      'memory errors unknown': ['a failure inside a layer, forward: the worker says', 'a failure inside a layer, backward: the worker says'],
      nothing: [],
    });
    expect(failed['plan a fifth too low']).toHaveLength(4);
  }, 1_200_000);
});
