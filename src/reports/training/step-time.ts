/** Time of a step in four parts. */
import type { MetricsRow } from '../../trainer/training-observer.ts';
import { metricValue } from '../../trainer/training-observer.ts';

export interface StepTime {
  /** Wall-clock seconds. */
  readonly total: number;
  /** Sampling; in asynchronous runs, waiting for it. */
  readonly sample: number;
  /** Forward, backward and optimiser. */
  readonly train: number;
  /** Saving and publishing the adapter. */
  readonly publish: number;
  /** The rest of the step. */
  readonly other: number;
}

/** Null if the step was not timed. */
export function stepTime(row: MetricsRow): StepTime | null {
  const total = metricValue(row, 'step_seconds');
  if (total === null) return null;
  const sample = metricValue(row, 'rollouts_seconds') ?? 0;
  const train = (metricValue(row, 'forward_seconds') ?? 0) + (metricValue(row, 'backward_seconds') ?? 0) + (metricValue(row, 'update_seconds') ?? 0);
  const publish = metricValue(row, 'publish_seconds') ?? 0;
  return { total, sample, train, publish, other: Math.max(0, total - sample - train - publish) };
}
