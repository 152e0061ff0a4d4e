import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { cardOfDevice, readGpuCards, shareDevices, visibleCards, visibleDevices } from '../../src/launch/gpu-cards.ts';
import { fakeNvidiaSmi } from '../cli/train/fake-nvidia-smi.ts';

const signal = new AbortController().signal;
const emptyFolder = () => mkdtempSync(join(tmpdir(), 'gpu-cards-'));
const pathOf = (folder: string) => ({ PATH: `${folder}:${process.env['PATH']}` });

async function twoCards() {
  const folder = emptyFolder();
  fakeNvidiaSmi(folder, [{ gib: 80 }, { gib: 24, usedGib: 4 }]);
  return (await readGpuCards({ env: pathOf(folder), signal }))!;
}

describe('readGpuCards', () => {
  it('reads size and use of every card', async () => {
    expect(await twoCards()).toEqual([
      { index: 0, uuid: 'GPU-uuid-0', name: 'NVIDIA H100', totalBytes: 80 * 2 ** 30, usedBytes: 0, driver: '580.1' },
      { index: 1, uuid: 'GPU-uuid-1', name: 'NVIDIA H100', totalBytes: 24 * 2 ** 30, usedBytes: 4 * 2 ** 30, driver: '580.1' },
    ]);
  });

  it('gives null without the program or where it fails, and leaves out a card of unknown memory', async () => {
    expect(await readGpuCards({ env: { PATH: emptyFolder() }, signal })).toBeNull();
    const folder = emptyFolder();
    const program = join(folder, 'nvidia-smi');
    writeFileSync(program, '#!/bin/sh\nexit 9\n');
    chmodSync(program, 0o755);
    expect(await readGpuCards({ env: pathOf(folder), signal })).toBeNull();
    writeFileSync(program, "#!/bin/sh\necho '0, GPU-x, GB10, [N/A], [N/A], 580.1'\n");
    expect(await readGpuCards({ env: pathOf(folder), signal })).toEqual([]);
  });
});

describe('visibleCards', () => {
  it('orders and limits cards as CUDA_VISIBLE_DEVICES does, by index or the start of a uuid', async () => {
    const cards = await twoCards();
    const indices = (visible: string | undefined) => visibleCards(cards, visible).map(({ index }) => index);
    expect(indices(undefined)).toEqual([0, 1]);
    expect(indices('1,0')).toEqual([1, 0]);
    expect(indices('GPU-uuid-1')).toEqual([1]);
    expect(indices('')).toEqual([]);
  });
});

describe('cardOfDevice', () => {
  it('finds the card of a torch device among the visible ones', async () => {
    const cards = await twoCards();
    expect(cardOfDevice('cuda', cards)!.index).toBe(0);
    expect(cardOfDevice('cuda:0', visibleCards(cards, '1'))!.index).toBe(1);
    expect(cardOfDevice('cuda:7', cards)).toBeNull();
    expect(cardOfDevice('cpu', cards)).toBeNull();
  });
});

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
    expect(await visibleDevices({ env: { CUDA_VISIBLE_DEVICES: '1, GPU-5ab,' }, signal })).toEqual(['1', 'GPU-5ab']);
    expect(await visibleDevices({ env: { CUDA_VISIBLE_DEVICES: '' }, signal })).toEqual([]);
  });

  it('are those of nvidia-smi otherwise, and unknown without it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vf-smi-'));
    expect(await visibleDevices({ env: { PATH: folder }, signal })).toBeNull();
    writeFileSync(join(folder, 'nvidia-smi'), '#!/bin/sh\necho 0\necho 1\n');
    chmodSync(join(folder, 'nvidia-smi'), 0o755);
    expect(await visibleDevices({ env: { PATH: folder }, signal })).toEqual(['0', '1']);
    rmSync(folder, { recursive: true });
  });
});
