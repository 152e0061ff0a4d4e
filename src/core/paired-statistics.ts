/**
 * Statistics of two runs on the same rows. Values come in pairs, one of each run; pairs of the same row are not independent, so the row is the unit:
 * the bootstrap draws whole rows, and the test exchanges whole rows.
 */
import type { Estimate } from '../schemas/summary.ts';
import { chiSquareTail, normalCdf, normalQuantile } from './normal-distribution.ts';
import type { Random } from './random.ts';
import type { ByExample } from './statistics.ts';

export interface Resampling {
  readonly random: Random;
  /** Number of times that the rows are drawn, at least 1. */
  readonly resamples: number;
}

/**
 * The means of several quantities over pairs, each with its 95 % interval from the same draws of rows (bias-corrected and accelerated bootstrap, Efron 1987).
 * `quantities[q][row]` are the differences of the row's pairs; the rows of all quantities are the same ones. Null for a quantity without any value; no interval if
 * fewer than two rows have one, or if the rows do not vary.
 */
export function estimateDifferences(quantities: readonly ByExample[], { random, resamples }: Resampling): (Estimate | null)[] {
  const totals = quantities.map(rowTotals);
  const rows = quantities[0]?.length ?? 0;
  const means = totals.map(() => new Float64Array(resamples));
  const drawn = new Int32Array(rows);
  // The others need no draws.
  const varying = totals.flatMap((total, q) => (jackknife(total).squares > 0 ? [q] : []));
  const draws = varying.length > 0 ? resamples : 0;
  for (let r = 0; r < draws; r++) {
    for (let i = 0; i < rows; i++) drawn[i] = random.integer(rows);
    for (const q of varying) means[q]![r] = meanOfDrawn(totals[q]!, drawn);
  }
  return totals.map((total, q) => estimateOf(total, means[q]!));
}

interface RowTotals {
  /** Sum of the row's values. [rows] */
  readonly sums: Float64Array;
  /** Number of them. [rows] */
  readonly counts: Float64Array;
  readonly sum: number;
  readonly count: number;
  /** Rows with a value. */
  readonly filled: readonly number[];
}

function rowTotals(values: ByExample): RowTotals {
  const sums = Float64Array.from(values, (row) => row.reduce((a, b) => a + b, 0));
  const counts = Float64Array.from(values, (row) => row.length);
  const filled = values.flatMap((row, i) => (row.length === 0 ? [] : [i]));
  return { sums, counts, sum: sums.reduce((a, b) => a + b, 0), count: counts.reduce((a, b) => a + b, 0), filled };
}

/** NaN if no drawn row has a value. */
function meanOfDrawn({ sums, counts }: RowTotals, drawn: Int32Array): number {
  let sum = 0;
  let count = 0;
  for (const i of drawn) {
    sum += sums[i]!;
    count += counts[i]!;
  }
  return sum / count;
}

function estimateOf(total: RowTotals, resampled: Float64Array): Estimate | null {
  const { sum, count, filled } = total;
  if (count === 0) return null;
  const value = sum / count;
  const { squares, cubes } = jackknife(total);
  if (filled.length < 2 || squares === 0) return { value, low: null, high: null, n: count };
  const acceleration = cubes / (6 * squares ** 1.5);
  const sorted = resampled.filter(Number.isFinite).toSorted();
  const bias = normalQuantile(shareBelow(sorted, value));
  const end = (z: number) => {
    const shifted = bias + z;
    return quantile(sorted, normalCdf(bias + shifted / (1 - acceleration * shifted)));
  };
  return { value, low: end(-Z), high: end(Z), n: count };
}

/** Measures how the mean varies if one row is left out: sums of squared and cubed deviations, 0 if only rounding varies it or fewer than two rows have values. */
function jackknife({ sums, counts, sum, count, filled }: RowTotals): { readonly squares: number; readonly cubes: number } {
  if (filled.length < 2) return { squares: 0, cubes: 0 };
  const without = filled.map((i) => (sum - sums[i]!) / (count - counts[i]!));
  const centre = without.reduce((a, b) => a + b, 0) / without.length;
  const squares = without.reduce((s, x) => s + (centre - x) ** 2, 0);
  // A mean of differences is at most about 1; rounding alone varies it by this much.
  const isConstant = squares <= 1e-24 * Math.max(1, (sum / count) ** 2);
  return isConstant ? { squares: 0, cubes: 0 } : { squares, cubes: without.reduce((s, x) => s + (centre - x) ** 3, 0) };
}

const Z = 1.959963984540054;

/** Share of the values below `x`, with half of those equal to it; never 0 or 1, which have no quantile. */
function shareBelow(sorted: Float64Array, x: number): number {
  const slack = 1e-12 * Math.max(1, Math.abs(x));
  let below = 0;
  let equal = 0;
  for (const value of sorted) {
    if (value < x - slack) below += 1;
    else if (value <= x + slack) equal += 1;
  }
  const share = (below + equal / 2) / sorted.length;
  const least = 0.5 / sorted.length;
  return Math.min(1 - least, Math.max(least, share));
}

/** Linear between neighbours, as numpy's default. */
function quantile(sorted: Float64Array, share: number): number {
  const at = share * (sorted.length - 1);
  const below = sorted[Math.floor(at)]!;
  return below + (sorted[Math.ceil(at)]! - below) * (at - Math.floor(at));
}

export interface Exchange {
  /** Pairs in which only the second value, or only the first one, is 1. */
  readonly gained: number;
  readonly lost: number;
  /** The two-sided probability that runs that do not differ would differ at least as much. 1 if no row differs. */
  readonly p: number;
  /** False if the distribution was too large to be computed and is approximated by a normal one. */
  readonly isExact: boolean;
}

/** Most additions of the exact distribution, about a second. */
const MOST_STEPS = 3e8;

/**
 * McNemar's test for differences of 0/1 values (-1, 0 or 1), by row. If the runs do not differ, exchanging the two runs on a row changes nothing, so
 * every row's total may have either sign. With one pair in each row that is McNemar's exact test; with more it counts every row once, however many
 * rollouts agree in it.
 */
export function exchangeTest(differences: ByExample, { mostSteps = MOST_STEPS } = {}): Exchange {
  const all = differences.flat();
  const gained = all.filter((d) => d > 0).length;
  const lost = all.filter((d) => d < 0).length;
  const sizes = differences.map((row) => Math.abs(row.reduce((a, b) => a + b, 0))).filter((size) => size > 0);
  const reach = sizes.reduce((a, b) => a + b, 0);
  const observed = Math.abs(gained - lost);
  if (observed === 0) return { gained, lost, p: 1, isExact: true };
  if (sizes.length * reach > mostSteps) {
    const squares = sizes.reduce((sum, size) => sum + size * size, 0);
    return { gained, lost, p: chiSquareTail((observed * observed) / squares), isExact: false };
  }
  return { gained, lost, p: Math.min(1, 2 * upperTail(sizes, reach, observed)), isExact: true };
}

/** Probability that a sum of `sizes` with random signs is at least `observed`. */
function upperTail(sizes: readonly number[], reach: number, observed: number): number {
  // chances[s]: that the sizes with a plus sign add up to s; the signed sum is then 2 s - reach.
  let chances = new Float64Array(reach + 1);
  chances[0] = 1;
  let top = 0;
  for (const size of sizes) {
    const next = new Float64Array(reach + 1);
    for (let s = 0; s <= top; s++) {
      const half = chances[s]! / 2;
      next[s]! += half;
      next[s + size]! += half;
    }
    top += size;
    chances = next;
  }
  let tail = 0;
  for (let s = Math.ceil((reach + observed) / 2); s <= reach; s++) tail += chances[s]!;
  return tail;
}

/** Holm's correction: the p values of several tests, raised so that the chance of any false finding stays below the level. In the given order. */
export function holm(ps: readonly number[]): number[] {
  const order = ps.map((_, i) => i).toSorted((a, b) => ps[a]! - ps[b]!);
  const adjusted = Array.from(ps);
  let largest = 0;
  for (const [place, i] of order.entries()) {
    largest = Math.max(largest, Math.min(1, ps[i]! * (ps.length - place)));
    adjusted[i] = largest;
  }
  return adjusted;
}
