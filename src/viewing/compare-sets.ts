/** Sets of rollouts on the same rows, side by side. `vf-compare` has the tests; the page shows where they differ. */
import { estimate } from '../core/statistics.ts';
import type { Comparison, ComparisonQuery } from './view-wire.ts';
import type { SetReader } from './set-reader.ts';

const MOST_ROWS = 500;

interface ComparedSet {
  readonly run: string;
  readonly reader: SetReader;
}

export async function compareSets(
  sets: readonly ComparedSet[],
  { sort = 'difference', from = 0, count = 100 }: Omit<ComparisonQuery, 'sets'>,
): Promise<Comparison> {
  for (const { reader } of sets) await reader.index.refresh();
  const groups = sets.map(({ reader }) => Map.groupBy(reader.index.query(), (row) => reader.index.groupOf(row)));
  const all = new Set(groups.flatMap((each) => [...each.keys()]));
  const shared = [...all].filter((group) => groups.every((each) => each.has(group)));
  const rewards = groups.map((each, i) => (group: string) => sets[i]!.reader.index.rewards(each.get(group) ?? []));
  const means = new Map(shared.map((group) => [group, rewards.map((of) => mean(of(group)))]));
  const ordered = sort === 'order' ? shared : shared.toSorted((a, b) => spread(means.get(b)!) - spread(means.get(a)!));
  const rows: Comparison['rows'][number][] = [];
  for (const group of ordered.slice(from, from + Math.min(count, MOST_ROWS))) {
    const rollouts = [];
    for (const [i, { reader }] of sets.entries()) rollouts.push(await reader.lines(groups[i]!.get(group)!));
    rows.push({ group, question: rollouts[0]![0]!.question, rewards: means.get(group)!, rollouts });
  }
  return {
    sets: sets.map(({ run, reader }, i) => ({ run, set: reader.set.id, title: reader.set.title, reward: estimate(shared.map(rewards[i]!)) })),
    shared: shared.length,
    partial: all.size - shared.length,
    differences: sets.slice(1).map((_, i) => difference(shared, { first: rewards[0]!, other: rewards[i + 1]!, means, side: i + 1 })),
    rows,
  };
}

interface DifferenceContext {
  readonly first: (group: string) => readonly number[];
  readonly other: (group: string) => readonly number[];
  readonly means: ReadonlyMap<string, readonly (number | null)[]>;
  readonly side: number;
}

function difference(shared: readonly string[], { first, other, means, side }: DifferenceContext): Comparison['differences'][number] {
  const rows = shared.filter((group) => means.get(group)![0] !== null && means.get(group)![side] !== null);
  const deltas = rows.map((group) => mean(other(group))! - mean(first(group))!);
  const won = deltas.filter((delta) => delta > 0).length;
  const lost = deltas.filter((delta) => delta < 0).length;
  return { mean: estimate(deltas.map((delta) => [delta])), won, tied: deltas.length - won - lost, lost };
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function spread(values: readonly (number | null)[]): number {
  const known = values.filter((value) => value !== null);
  return known.length < 2 ? -1 : Math.max(...known) - Math.min(...known);
}
