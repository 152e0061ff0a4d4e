/**
 * Statistics over the seeds of a training. A seed decides the order of the rows, the initial adapter and the samples, so the value of a run varies with it, and the run is the
 * unit. There are few runs, so intervals are Student's: they assume that the values of seeds are about normal, because with three of them nothing can show whether they are.
 */
import type { Estimate } from '../schemas/summary.ts';
import { studentQuantile, studentTail } from './student-t.ts';

/** The mean over seeds with its 95 % t interval; no interval for one seed or for seeds that agree exactly, null for none. Not cut off at the ends of the values' range. */
export function estimateOverSeeds(values: readonly number[]): Estimate | null {
  const { n, mean, variance } = moments(values);
  if (n === 0) return null;
  // Equal values say nothing about how far another seed would be.
  return variance === 0 || n === 1
    ? { value: mean, low: null, high: null, n }
    : interval(mean, { n, error: Math.sqrt(variance / n), degrees: n - 1 });
}

export interface SeedDifference {
  /** `paired`: of runs with equal seeds. `welch`: of independent runs, whose variances may differ. */
  readonly test: 'paired' | 'welch';
  /** The second mean minus the first, with its 95 % interval. `n`: pairs, or runs of both sides. */
  readonly difference: Estimate;
  /** Two-sided. */
  readonly p: number;
  readonly degrees: number;
}

/** The difference of two groups by the values of the same seeds, in order. Null unless there are two, and if every seed has the same difference: nothing shows how it varies. */
export function pairedBySeed(first: readonly number[], second: readonly number[]): SeedDifference | null {
  const { n, mean, variance } = moments(second.map((value, i) => value - first[i]!));
  if (n < 2 || variance === 0) return null;
  return tested('paired', { difference: mean, n, error: Math.sqrt(variance / n), degrees: n - 1 });
}

/** The difference of two groups of independent runs (Welch 1947). Null unless each has at least two and the runs of one group differ. */
export function welch(first: readonly number[], second: readonly number[]): SeedDifference | null {
  const [a, b] = [moments(first), moments(second)];
  const [u, v] = [a.variance / a.n, b.variance / b.n];
  if (a.n < 2 || b.n < 2 || u + v === 0) return null;
  // Satterthwaite.
  const degrees = (u + v) ** 2 / (u ** 2 / (a.n - 1) + v ** 2 / (b.n - 1));
  return tested('welch', { difference: b.mean - a.mean, n: a.n + b.n, error: Math.sqrt(u + v), degrees });
}

interface Difference {
  readonly difference: number;
  readonly n: number;
  /** Standard error, above 0. */
  readonly error: number;
  readonly degrees: number;
}

function tested(test: SeedDifference['test'], { difference, n, error, degrees }: Difference): SeedDifference {
  return { test, difference: interval(difference, { n, error, degrees }), p: studentTail(difference / error, degrees), degrees };
}

function interval(value: number, { n, error, degrees }: Omit<Difference, 'difference'>): Estimate {
  const half = studentQuantile(0.975, degrees) * error;
  return { value, low: value - half, high: value + half, n };
}

function moments(values: readonly number[]): { readonly n: number; readonly mean: number; readonly variance: number } {
  const n = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / n;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  // Rounding alone varies equal values by this much.
  return { n, mean, variance: squares <= 1e-28 * n * Math.max(1, mean ** 2) ? 0 : squares / (n - 1) };
}
