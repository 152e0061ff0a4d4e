/** Notices about rows for training and evaluation that are not apart. */
import { SAME_ROWS_NOTICE } from '../core/training-rows.ts';
import type { RowsSource } from './find-rows.ts';

/** @param training the sources of the rows for training, if they were loaded */
export function splitNotices(evaluated: readonly RowsSource[], split: string, training: readonly RowsSource[] = []): string[] {
  if (evaluated.some(({ file }) => training.some((other) => other.file === file))) return [SAME_ROWS_NOTICE];
  const replaced = split === 'test' ? evaluated.filter(({ kind, file }) => kind === 'hub' && file.endsWith('/train.jsonl')) : [];
  return replaced.map(({ name }) => `${name} has no split test or dev on the hub, so the rows for evaluation are those of its split train.`);
}
