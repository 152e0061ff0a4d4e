/** The metrics of a run that have been read so far. */
import type { MetricLines } from '../../../src/viewing/view-wire.ts';

export type MetricLine = MetricLines['lines'][number];

export interface Metrics {
  /** Null before the first answer. */
  readonly lines: readonly MetricLine[] | null;
  readonly meanings: Readonly<Record<string, string>>;
  /** The configuration of the run. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Evaluations that are left out, because the environment or the settings of the evaluation have changed since. */
  readonly older: number;
  /** Null before the first answer. */
  readonly state: MetricLines['state'] | null;
  readonly error: Error | null;
}
