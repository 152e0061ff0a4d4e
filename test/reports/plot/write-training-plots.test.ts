import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { writeTrainingPlots } from '../../../src/reports/plot/write-training-plots.ts';
import { supervisedRows, trainingRows } from '../../cli/train/training-rows.ts';
import { parseSvg } from './svg-tree.ts';

describe('writeTrainingPlots', () => {
  it('writes each plot as SVG and PNG', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'plots-'));
    try {
      const paths = await writeTrainingPlots(trainingRows({ steps: 3 }), { name: 'nano', folder: join(folder, 'plots') });
      expect(paths.map((path) => basename(path))).toEqual(['reward.svg', 'reward.png', 'overview.svg', 'overview.png']);
      const [reward, rewardPng, overview, overviewPng] = (await Promise.all(paths.map((path) => readFile(path)))) as [Buffer, Buffer, Buffer, Buffer];
      for (const svg of [reward, overview]) expect(parseSvg(svg.toString()).name).toBe('svg');
      for (const png of [rewardPng, overviewPng]) expect(png.subarray(1, 4).toString()).toBe('PNG');
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it.each([
    ['loss, in place of a reward that nobody measured', supervisedRows(), ['loss', 'overview']],
    ['loss next to the reward of evaluations', supervisedRows({ isEvaluated: true }), ['reward', 'loss', 'overview']],
  ])('draws of supervised steps their %s', async (_, rows, drawn) => {
    const folder = await mkdtemp(join(tmpdir(), 'plots-'));
    try {
      const paths = await writeTrainingPlots(rows, { name: 'nano', folder });
      expect(paths.map((path) => basename(path))).toEqual(drawn.flatMap((file) => [`${file}.svg`, `${file}.png`]));
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});
