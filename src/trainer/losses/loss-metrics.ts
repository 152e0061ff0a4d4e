/** Metrics of a loss that can be merged: those of an optimiser step's parts give those of the whole step. */
import type { LossMetric, LossMetrics } from '../token-loss.ts';

/** Merges the metrics of disjoint parts. */
export function mergeLossMetrics(parts: readonly LossMetrics[]): LossMetrics {
  const merged: Record<string, LossMetric> = {};
  for (const part of parts) {
    for (const [name, metric] of Object.entries(part)) merged[name] = Object.hasOwn(merged, name) ? mergeTwo(merged[name]!, metric) : metric;
  }
  return merged;
}

/** The mean of a sum over `weight` tokens or sequences. With weight 0 it is NaN, and merging leaves it out. */
export function meanMetric(sum: number, weight: number): LossMetric {
  return { merge: 'mean', value: sum / weight, weight };
}

function mergeTwo(a: LossMetric, b: LossMetric): LossMetric {
  if (a.merge === 'mean' && b.merge === 'mean') {
    if (a.weight === 0 || b.weight === 0) return a.weight === 0 ? b : a;
    const weight = a.weight + b.weight;
    return { merge: 'mean', value: (a.value * a.weight + b.value * b.weight) / weight, weight };
  }
  if (a.merge === 'mean' || b.merge === 'mean' || a.merge !== b.merge) throw new RangeError(`Cannot merge a ${a.merge} with a ${b.merge}`);
  if (a.merge === 'sum') return { merge: 'sum', value: a.value + b.value };
  return { merge: a.merge, value: a.merge === 'min' ? Math.min(a.value, b.value) : Math.max(a.value, b.value) };
}
