/** A run's report of metrics that failed, one sentence for each: `Metric "x" failed in 3 of 40 rollouts: TypeError: no notes`. */
import type { Rollout } from './rollout.ts';

/** `rollouts` are the finished ones. */
export function metricErrorTexts(rollouts: readonly Pick<Rollout, 'metricErrors'>[]): string[] {
  const all = rollouts.flatMap(({ metricErrors = {} }) => Object.entries(metricErrors));
  return [...Map.groupBy(all, ([name]) => name)].map(([name, errors]) => {
    // The message begins with the name as well.
    const why = errors[0]![1].replace(/^Metric ".*?" failed: /, '').replace(/^(?:Group m|M)etric ".*?" gave/, 'it gave');
    const end = why.endsWith('.') ? '' : '.';
    return `Metric "${name}" failed in ${errors.length} of ${rollouts.length} rollouts: ${why}${end} Its mean leaves these rollouts out; their rewards count.`;
  });
}
