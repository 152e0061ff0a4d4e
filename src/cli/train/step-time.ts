/** Where the time of a step went, in the four parts that people ask about. */
import type { MetricsRow } from '../../trainer/metrics.ts';
import { metricValue } from './metric-value.ts';

export interface StepTime {
  /** Seconds, wall clock. */
  readonly total: number;
  /** Sampling; in asynchronous runs the wait for it. */
  readonly sample: number;
  /** Forward, backward and optimiser. */
  readonly train: number;
  /** From the saved adapter to the switch. */
  readonly publish: number;
  /** What is left of the step. */
  readonly other: number;
}

/** Null where the step was not timed. */
export function stepTime(row: MetricsRow): StepTime | null {
  const total = metricValue(row, 'step_seconds');
  if (total === null) return null;
  const sample = metricValue(row, 'rollouts_seconds') ?? 0;
  const train = (metricValue(row, 'forward_seconds') ?? 0) + (metricValue(row, 'backward_seconds') ?? 0) + (metricValue(row, 'update_seconds') ?? 0);
  const publish = metricValue(row, 'publish_seconds') ?? 0;
  return { total, sample, train, publish, other: Math.max(0, total - sample - train - publish) };
}
