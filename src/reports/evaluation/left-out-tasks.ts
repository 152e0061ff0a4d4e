import type { Dataset, Row } from '../../core/dataset.ts';
import { Random } from '../../core/random.ts';
import { countText } from '../text/number-text.ts';

export interface PlayedRows {
  /** The environment's rows for evaluation. */
  readonly rows: Dataset;
  /** Number of rows that are played. */
  readonly count: number;
  /** Null: in order. */
  readonly shuffleSeed: number | null;
}

/** A notice that names the tasks without a played row, and how to include them; null if every task has one. */
export function leftOutTasks({ rows, count, shuffleSeed }: PlayedRows): string | null {
  if (count >= rows.length) return null;
  const ordered: readonly Row[] = [...(shuffleSeed === null ? rows : rows.shuffle(Random.fromSeed(shuffleSeed)))];
  /** Task → position of its first row. */
  const firsts = new Map<string, number>();
  for (const [place, { task }] of ordered.entries()) if (task !== undefined && !firsts.has(task)) firsts.set(task, place);
  const missing = [...firsts].filter(([, place]) => place >= count);
  if (missing.length === 0) return null;
  const names = missing.map(([task]) => task).join(', ');
  const enough = countText(Math.max(...missing.map(([, place]) => place)) + 1);
  const remedy = shuffleSeed === null ? `add --shuffle to mix the tasks, or play at least -n ${enough}` : `play at least -n ${enough}`;
  return `The first ${countText(count)} of ${countText(rows.length)} rows contain none of ${names} (${missing.length} of ${firsts.size} tasks), so the summary does not cover them: ${remedy}`;
}
