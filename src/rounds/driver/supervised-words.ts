import { existsSync } from 'node:fs';
import { join } from 'node:path';

export interface SupervisedRows {
  readonly path: string;
  readonly count: number;
  /** The run whose rollouts they are. */
  readonly run: string;
}

/**
 * The arguments of `vf-train` for demonstrations: the rows, the number of rows in a step, and the folder of the pictures that they name by digest, if their run
 * showed some.
 */
export function supervisedWords({ path, count, run }: SupervisedRows): string[] {
  const images = join(run, 'images');
  const pictures = existsSync(images) ? ['--set', `sft.images=${images}`] : [];
  return ['--sft', path, '--set', `sft.batch_size=${Math.min(count, 8)}`, ...pictures];
}
