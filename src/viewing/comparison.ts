/** Compares sets of rollouts on the same rows, differences first. Rollouts are paired by row and index, and rows are identified, as in vf-compare. */
import { estimateDifferences } from '../core/paired-statistics.ts';
import { Random } from '../core/random.ts';
import { scaleProblem, versionProblem } from '../core/reward-scale.ts';
import { type NamedRun, runLabels } from '../core/setting-differences.ts';
import { estimate } from '../core/statistics.ts';
import { nameOf } from '../evaluate/compare-runs.ts';
import { isSameContent } from '../evaluate/row-content.ts';
import type { OpenRun } from './open-run.ts';
import { compareIds, windowOf } from './query-rows.ts';
import type { RolloutReader } from './rollout-reader.ts';
import type { RolloutTable } from './rollout-table.ts';
import type { Comparison, ComparisonQuery } from './view-wire.ts';

interface Side {
  readonly run: string;
  readonly set: string;
  readonly title: string;
  readonly reader: RolloutReader;
  readonly table: RolloutTable;
  /** Rows of the table by group, in the order of their indices. */
  readonly groups: ReadonlyMap<string, readonly number[]>;
}

/** Rows times draws of the bootstrap: a fraction of a second. */
const MOST_DRAWS = 2e7;
const MOST_RESAMPLES = 10_000;
const LEAST_RESAMPLES = 200;

export async function compareSets(sets: readonly { readonly run: OpenRun; readonly set: string }[], query: ComparisonQuery): Promise<Comparison> {
  const sides: Side[] = [];
  const named: NamedRun[] = [];
  for (const { run, set } of sets) {
    sides.push(await sideOf(run, set));
    named.push({ name: (await run.line()).name, settings: await run.settingsOf(set) });
  }
  const labels = runLabels(named);
  const everywhere = new Set(sides.flatMap(({ groups }) => [...groups.keys()]));
  const common = [...sides[0]!.groups.keys()].filter((group) => sides.every((side) => side.groups.has(group)));
  const [first, ...others] = named.map(({ settings }, i) => ({ name: nameOf(i), config: settings }));
  const areIdsEnough = others.every((other) => scaleProblem(first!, other) === null);
  const shared = common.filter((group) => isSameRow(sides, group, areIdsEnough));
  const means = new Map(shared.map((group) => [group, sides.map((side) => meanReward(side, group))]));
  const order = query.sort === 'order' ? shared : shared.toSorted((a, b) => spread(means.get(b)!) - spread(means.get(a)!) || compareIds(a, b));
  const shown = windowOf([...order.keys()], query).map((i) => order[i]!);
  const lines = await Promise.all(sides.map((side) => linesOf(side, shown)));
  return {
    sets: sides.map(({ run, set, title, ...side }, i) => ({ run, set, title, label: labels[i]!, reward: estimate(valuesOf(side, shared)) })),
    shared: shared.length,
    partial: everywhere.size - common.length,
    differing: common.length - shared.length,
    differences: others.map((other, i) => {
      const problem = versionProblem(first!, other);
      return { ...difference(sides[0]!, sides[i + 1]!, problem === null ? shared : []), notComparable: problem };
    }),
    rows: shown.map((group) => {
      const rollouts = lines.map((of) => of.get(group) ?? []);
      return { group, question: rollouts.flat().find(({ question }) => question !== '')?.question ?? '', rewards: means.get(group)!, rollouts };
    }),
  };
}

async function sideOf(run: OpenRun, id: string): Promise<Side> {
  const file = await run.set(id);
  const reader = await run.reader(file);
  const table = await reader.table();
  const groups = Map.groupBy(table.rows, table.name('group') as (row: number) => string);
  for (const rows of groups.values()) rows.sort((a, b) => table.index(a) - table.index(b));
  return { run: run.found.id, set: id, title: file.set.title, reader, table, groups };
}

/**
 * True if the id stands for one row in all sets: runs of different data number their rows in the same way. `areIdsEnough`: a set that holds no content is of the same
 * environment and data set as the others.
 */
function isSameRow(sides: readonly Side[], group: string, areIdsEnough: boolean): boolean {
  const contents = sides.map(({ table }) => table.content(group));
  const known = contents.filter((content) => content !== null);
  return (areIdsEnough || known.length === contents.length) && known.every((content) => isSameContent(known[0]!, content));
}

async function linesOf({ reader, table, groups }: Side, shown: readonly string[]) {
  const lines = await reader.rolloutLines(
    table,
    shown.flatMap((group) => groups.get(group)!),
  );
  return Map.groupBy(lines, ({ group }) => group);
}

function rewardsOf({ table, groups }: Pick<Side, 'table' | 'groups'>, group: string): number[] {
  const reward = table.number('reward');
  return groups
    .get(group)!
    .map(reward)
    .filter((value) => !Number.isNaN(value));
}

function valuesOf(side: Pick<Side, 'table' | 'groups'>, groups: readonly string[]): number[][] {
  return groups.map((group) => rewardsOf(side, group));
}

function meanReward(side: Side, group: string): number | null {
  const rewards = rewardsOf(side, group);
  return rewards.length === 0 ? null : rewards.reduce((sum, value) => sum + value, 0) / rewards.length;
}

function spread(means: readonly (number | null)[]): number {
  const known = means.filter((value) => value !== null);
  return known.length < 2 ? -1 : Math.max(...known) - Math.min(...known);
}

/** The second side minus the first, over pairs of finished rollouts with the same row and index. */
function difference(first: Side, second: Side, shared: readonly string[]): Omit<Comparison['differences'][number], 'notComparable'> {
  const [a, b] = [first.table.number('reward'), second.table.number('reward')];
  const values = shared.map((group) => {
    const partners = new Map(second.groups.get(group)!.map((row) => [second.table.index(row), row]));
    return first.groups.get(group)!.flatMap((row) => {
      const partner = partners.get(first.table.index(row));
      const value = partner === undefined ? NaN : b(partner) - a(row);
      return Number.isNaN(value) ? [] : [value];
    });
  });
  const resamples = Math.max(LEAST_RESAMPLES, Math.min(MOST_RESAMPLES, Math.floor(MOST_DRAWS / Math.max(1, shared.length))));
  const [mean = null] = shared.length === 0 ? [] : estimateDifferences([values], { random: Random.fromSeed(0), resamples });
  const rows = values.filter((row) => row.length > 0).map((row) => row.reduce((sum, value) => sum + value, 0));
  const [won, lost] = [rows.filter((sum) => sum > 0).length, rows.filter((sum) => sum < 0).length];
  return { mean, won, tied: rows.length - won - lost, lost };
}
