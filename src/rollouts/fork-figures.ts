/** Counts the forks of rollouts, by kind. */
import type { Fork } from '../agents/fork.ts';
import type { ForkFigures } from '../schemas/summary.ts';

/** No `forks` if no rollout has one. */
export function forkFigures(rollouts: readonly { readonly forks?: readonly Fork[] }[]): { readonly forks?: ForkFigures } {
  const all = rollouts.flatMap(({ forks = [] }) => forks);
  if (all.length === 0) return {};
  const forked = rollouts.filter(({ forks = [] }) => forks.length > 0).length;
  const kinds = [...Map.groupBy(all, ({ kind }) => kind)]
    .toSorted(([a, some], [b, others]) => others.length - some.length || (a < b ? -1 : 1))
    .map(([kind, forks]) => [kind, { count: forks.length, example: forks.find(({ difference }) => difference !== '')?.difference ?? '' }] as const);
  return { forks: { rollouts: forked, share: forked / rollouts.length, kinds: Object.fromEntries(kinds) } };
}
