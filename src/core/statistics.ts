/**
 * Means and their confidence intervals. Rollouts of one example are not independent, so every interval treats the example as the unit: it covers the
 * variation over other examples of the same kind. All intervals are two-sided, 95 %.
 */
import type { Estimate } from '../schemas/summary.ts';
import { studentQuantile } from './student-t.ts';

/** Values by example: `[example][rollout]`. Empty examples are ignored. */
export type ByExample = readonly (readonly number[])[];

const Z = 1.959963984540054;

/**
 * The mean over rollouts with its cluster-robust standard error (CR1: `sum_g (sum_i r_gi)^2 * G / (G - 1) / N^2`) and Student's t with
 * G - 1 degrees of freedom. With one rollout per example this is the textbook interval, except that its lower end is at least 0 if no value is
 * negative. No interval for one example, or if the examples do not vary. Null without values.
 */
export function estimateMean(values: ByExample): Estimate | null {
  const clusters = values.filter((v) => v.length > 0);
  const n = count(clusters);
  if (n === 0) return null;
  const value = mean(clusters, n);
  const variance = clusters.length < 2 ? 0 : clusterVariance(clusters, value, n);
  // Rounding alone varies equal values by less than this.
  if (variance <= 1e-28 * Math.max(1, value ** 2)) return { value, low: null, high: null, n };
  const half = studentQuantile(0.975, clusters.length - 1) * Math.sqrt(variance);
  const isNeverNegative = clusters.every((v) => v.every((x) => x >= 0));
  return { value, low: isNeverNegative ? Math.max(0, value - half) : value - half, high: value + half, n };
}

/**
 * A share of 0/1 values with Wilson's score interval. With several rollouts per example, `n` in Wilson's formula is the effective number
 * `p (1 - p) / variance` (design effect), from 1 to the number of rollouts. If p is 0 or 1, that cannot be estimated and the number of examples is used,
 * which is conservative.
 */
export function estimateShare(values: ByExample): Estimate | null {
  const clusters = values.filter((v) => v.length > 0);
  const n = count(clusters);
  if (n === 0) return null;
  const value = mean(clusters, n);
  return { value, ...wilson(value, effectiveNumber(clusters, value, { rollouts: n })), n };
}

/** A share if every value is 0 or 1, else a mean. */
export function estimate(values: ByExample): Estimate | null {
  return values.every((v) => v.every((x) => x === 0 || x === 1)) ? estimateShare(values) : estimateMean(values);
}

/** Probability that at least one of `k` rollouts drawn from `n` passes, if `passed` of the `n` pass: `1 - C(n - passed, k) / C(n, k)`. */
export function passAtK(n: number, passed: number, k: number): number {
  let noneOfThem = 1;
  for (let i = 0; i < k; i++) noneOfThem *= Math.max(0, n - passed - i) / (n - i);
  return 1 - noneOfThem;
}

/** Probability that all of `k` rollouts drawn from `n` pass, if `passed` of the `n` pass: `C(passed, k) / C(n, k)`. */
export function passAllK(n: number, passed: number, k: number): number {
  let all = 1;
  for (let i = 0; i < k; i++) all *= Math.max(0, passed - i) / (n - i);
  return all;
}

/** 1, 2, 4, ... up to `limit`. */
export function powersOfTwo(limit: number): number[] {
  const powers: number[] = [];
  for (let k = 1; k <= limit; k *= 2) powers.push(k);
  return powers;
}

/**
 * The mean of one probability per example, such as its pass@k, with Wilson's interval. `rollouts`: the total number of rollouts behind the
 * probabilities. The effective number is computed as in `estimateShare`, so that pass@1 with equally many rollouts per example has the interval of the
 * share itself. The result's `n` is the number of examples.
 */
export function estimateChance(perExample: readonly number[], rollouts: number): Estimate | null {
  const n = perExample.length;
  if (n === 0) return null;
  const clusters = perExample.map((chance) => [chance]);
  const value = mean(clusters, n);
  return { value, ...wilson(value, effectiveNumber(clusters, value, { rollouts })), n };
}

/** Wilson's score interval for a share `p` of `n`, which need not be an integer. */
export function wilson(p: number, n: number): { low: number; high: number } {
  const z2 = Z * Z;
  const centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const half = (Z / (1 + z2 / n)) * Math.sqrt((p * (1 - p)) / n + z2 / (4 * n * n));
  return { low: p === 0 ? 0 : Math.max(0, centre - half), high: p === 1 ? 1 : Math.min(1, centre + half) };
}

function count(clusters: ByExample): number {
  return clusters.reduce((n, v) => n + v.length, 0);
}

function mean(clusters: ByExample, n: number): number {
  return clusters.reduce((sum, v) => sum + v.reduce((a, b) => a + b, 0), 0) / n;
}

function clusterVariance(clusters: ByExample, centre: number, n: number): number {
  const groups = clusters.length;
  const squares = clusters.reduce((sum, v) => sum + v.reduce((a, b) => a + b - centre, 0) ** 2, 0);
  return (squares * groups) / (groups - 1) / (n * n);
}

/** The number of independent 0/1 values of mean `p` that would have the same variance as these examples with `rollouts` rollouts in total. */
function effectiveNumber(clusters: ByExample, p: number, { rollouts }: { readonly rollouts: number }): number {
  const examples = clusters.length;
  if (examples === rollouts || examples < 2 || p === 0 || p === 1) return examples;
  const variance = clusterVariance(clusters, p, count(clusters));
  return variance === 0 ? rollouts : Math.min(rollouts, Math.max(1, (p * (1 - p)) / variance));
}
