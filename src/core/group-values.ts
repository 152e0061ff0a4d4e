/** Computes the rewards and metrics that score a group together. */
import type { Row } from './dataset.ts';
import { RewardError } from './errors.ts';
import { returnedText } from './returned-text.ts';
import { finite, metricError } from './reward-errors.ts';
import type { RewardContext, Term } from './rubric.ts';
import type { TermPlace } from './term-place.ts';

/** Returns the values by name; the value of a metric that failed is its error. Throws the error of a reward. */
export async function groupValues<R extends Row>(
  terms: readonly Term<R>[],
  contexts: readonly RewardContext<R>[],
  place: TermPlace,
): Promise<Map<string, readonly number[] | RewardError>> {
  const byName = new Map<string, readonly number[] | RewardError>();
  for (const { name, weight, group } of terms) {
    place.name = name;
    try {
      const values: unknown = await group!(contexts);
      const list = Array.isArray(values) || values instanceof Float64Array ? Array.from(values) : null;
      if (list?.length !== contexts.length) {
        const given = list === null ? returnedText(values) : `${list.length} numbers`;
        throw new RewardError(
          `Group ${weight === 0 ? 'metric' : 'reward'} "${name}" gave ${given} for ${contexts.length} rollouts. It must give a list with a number for each.`,
          { isOfCode: true },
        );
      }
      byName.set(
        name,
        list.map((value: number) => finite({ name, weight }, value)),
      );
    } catch (error) {
      byName.set(name, metricError({ name, weight }, error));
    }
  }
  return byName;
}
