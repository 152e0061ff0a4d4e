import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { shareDevices, visibleDevices } from '../../src/launch/gpu-devices.ts';

const signal = new AbortController().signal;

describe('shareDevices', () => {
  it('gives each replica GPUs of its own, in order', () => {
    const visible = ['4', '5', '6', '7'];
    expect(shareDevices({ replicas: 2, tensorParallelSize: 2 }, visible)).toEqual([
      ['4', '5'],
      ['6', '7'],
    ]);
    expect(shareDevices({ replicas: 3, tensorParallelSize: 1 }, visible)).toEqual([['4'], ['5'], ['6']]);
    expect(shareDevices({ replicas: 1, tensorParallelSize: 2 }, visible)).toEqual([['4', '5']]);
  });

  it('leaves the choice to vLLM for one server on one GPU, and where no GPU is known', () => {
    expect(shareDevices({ replicas: 1, tensorParallelSize: 1 }, ['0', '1'])).toEqual([null]);
    expect(shareDevices({ replicas: 2, tensorParallelSize: 1 }, null)).toEqual([null, null]);
  });

  it('refuses more replicas than there are GPUs for', () => {
    const share = (visible: string[]) => shareDevices({ replicas: 2, tensorParallelSize: 2 }, visible);
    expect(() => share(['0', '1', '2'])).toThrow(ConfigError);
    expect(() => share(['0', '1', '2'])).toThrow(/needs 4 GPUs \(replicas 2 × tensor_parallel_size 2\), but only 3 are visible \(0,1,2\)/);
    expect(() => share([])).toThrow(/but none is visible\./);
  });
});

describe('visibleDevices', () => {
  it('are those that the environment lists', async () => {
    expect(await visibleDevices({ CUDA_VISIBLE_DEVICES: '1, GPU-5ab,' }, signal)).toEqual(['1', 'GPU-5ab']);
    expect(await visibleDevices({ CUDA_VISIBLE_DEVICES: '' }, signal)).toEqual([]);
  });

  it('are those of nvidia-smi otherwise, and unknown without it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vf-smi-'));
    expect(await visibleDevices({ PATH: folder }, signal)).toBeNull();
    writeFileSync(join(folder, 'nvidia-smi'), '#!/bin/sh\necho 0\necho 1\n');
    chmodSync(join(folder, 'nvidia-smi'), 0o755);
    expect(await visibleDevices({ PATH: folder }, signal)).toEqual(['0', '1']);
    rmSync(folder, { recursive: true });
  });
});
