import type { MetricsRow } from '../../trainer/training-observer.ts';

/** A metric of a row; null if it was not measured or is not finite. */
export function metricValue({ values }: MetricsRow, name: string): number | null {
  const value = values[name] ?? null;
  return value !== null && Number.isFinite(value) ? value : null;
}
