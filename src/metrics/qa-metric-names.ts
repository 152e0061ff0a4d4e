/** Names of the metrics in qa-metrics.ts, apart from them so that checking a name loads no metric. */

/** UltraRAG's metrics, in its order. */
export const QA_METRICS = ['acc', 'em', 'stringem', 'coverem', 'f1', 'rouge-1', 'rouge-2', 'rouge-l'] as const;

/**
 * - `acc`: 1 if some golden answer occurs in the prediction, and the prediction is not empty
 * - `acc_v20`: `acc` as UltraRAG's first releases had it: 1 if the prediction occurs in some golden answer, an empty one in each
 * - `em`: 1 if the prediction equals some golden answer
 * - `stringem`: the share of golden answers that the prediction equals
 * - `coverem`: 1 if the prediction has every word of some golden answer
 * - `f1`: the best F1 of words over the golden answers; 0 if either has none
 * - `rouge-1`, `rouge-2`, `rouge-l`: the best F-measure of ROUGE over the golden answers
 */
export type QaMetric = (typeof QA_METRICS)[number] | 'acc_v20';

/** `QA_METRICS` and `acc_v20`. */
export const QA_METRIC_NAMES: readonly QaMetric[] = [...QA_METRICS, 'acc_v20'];

export function isQaMetric(name: unknown): name is QaMetric {
  return (QA_METRIC_NAMES as readonly unknown[]).includes(name);
}
