import { readLines } from '../../files/json-lines.ts';
import { parseWire } from '../../schemas/results.ts';
import { MetricsLineSchema } from '../../schemas/training-records.ts';
import type { MetricsRow } from './metrics.ts';

/** Reads a `metrics.jsonl`, possibly of a run in progress; skips torn or unreadable lines and changes nothing. */
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
