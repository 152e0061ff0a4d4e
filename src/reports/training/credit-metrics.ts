import { CREDIT_PREFIX } from '../../trainer/credit.ts';
import { type MetricsRow, metricValue } from '../../trainer/training-observer.ts';

const MOST = 5;

/** Names of the metrics of the credit that some step has measured, in the order in which the credit lists them; the first five. */
export function creditMetrics(rows: readonly MetricsRow[]): readonly string[] {
  const names = new Set<string>();
  for (const row of rows)
    for (const name of Object.keys(row.values)) if (name.startsWith(CREDIT_PREFIX) && metricValue(row, name) !== null) names.add(name);
  return [...names].slice(0, MOST);
}
