/** Counts the requests of agents that were repeated or refused. */
import type { Summary } from '../schemas/summary.ts';
import type { RequestFacts } from './agent-requests.ts';

/** Each is absent if no rollout has one. */
export function requestFigures(rollouts: readonly RequestFacts[]): Pick<Summary, 'repeats' | 'refused'> {
  const repeats = rollouts.flatMap(({ repeats: count }) => count ?? []);
  const refused = rollouts.flatMap(({ refused: of }) => of ?? []);
  const sum = (counts: readonly number[]) => counts.reduce((all, count) => all + count, 0);
  return {
    ...(repeats.length === 0 ? {} : { repeats: { rollouts: repeats.length, count: sum(repeats) } }),
    ...(refused.length === 0
      ? {}
      : { refused: { rollouts: refused.length, count: sum(refused.map(({ count }) => count)), first: refused[0]!.first } }),
  };
}
