import { readLines } from '../files/json-lines.ts';
import { parseWire } from '../schemas/results.ts';
import { MetricsLineSchema } from '../schemas/training-records.ts';
import type { MetricsRow } from './metrics.ts';

/** The rows of a `metrics.jsonl`, of a run that may still be going on: a line that is torn or unreadable is left out. Changes nothing. */
export async function readMetrics(path: string): Promise<MetricsRow[]> {
  const rows: MetricsRow[] = [];
  for await (const { text } of readLines(path)) {
    const parsed = parseWire(MetricsLineSchema, text);
    if ('problem' in parsed) continue;
    const { kind, step, time: _, ...values } = parsed.value;
    rows.push({ kind, step, values });
  }
  return rows;
}
