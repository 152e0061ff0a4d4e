/** What became of agents' requests that brought no turn, as lines of a summary. */
import type { Summary } from '../../schemas/summary.ts';
import { plural } from '../text/number-text.ts';

/** `12 requests in 3 rollouts were the same as an earlier one and got its answer`. */
export function repeatsText({ rollouts, count }: NonNullable<Summary['repeats']>): string {
  const each = count === 1 ? 'was the same as an earlier one and got its answer' : 'were the same as an earlier one and got its answer';
  return `${plural(count, 'request')} in ${plural(rollouts, 'rollout')} ${each}`;
}

/** `4 requests in 2 rollouts could not be honoured; the first: …`. Unescaped text of agents. */
export function refusedText({ rollouts, count, first }: NonNullable<Summary['refused']>): string {
  return `${plural(count, 'request')} in ${plural(rollouts, 'rollout')} could not be honoured; the first: ${first}`;
}
