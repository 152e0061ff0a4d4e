import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { MetricsRow } from '../../trainer/training-observer.ts';
import { rasterize } from './rasterize.ts';
import { hasDemonstrations, hasRewards, lossPlot, overviewPlot, type PlotLook, rewardPlot } from './training-plots.ts';

export interface TrainingPlotOptions extends PlotLook {
  readonly folder: string;
}

/**
 * Writes the reward (for supervised runs the loss, instead or in addition) and the overview into `folder`, each as SVG and PNG, and returns the paths in this order.
 * Creates a missing folder.
 */
export async function writeTrainingPlots(rows: readonly MetricsRow[], { folder, ...look }: TrainingPlotOptions): Promise<string[]> {
  await mkdir(folder, { recursive: true });
  const paths: string[] = [];
  for (const [file, svg] of [
    ...(hasRewards(rows) || !hasDemonstrations(rows) ? [['reward', rewardPlot(rows, look)] as const] : []),
    ...(hasDemonstrations(rows) ? [['loss', lossPlot(rows, look)] as const] : []),
    ['overview', overviewPlot(rows, look)],
  ] as const) {
    const { png } = await rasterize(svg);
    for (const [ending, content] of [
      ['svg', svg],
      ['png', png],
    ] as const) {
      const path = join(folder, `${file}.${ending}`);
      await writeFile(path, content);
      paths.push(path);
    }
  }
  return paths;
}
