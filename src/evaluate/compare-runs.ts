/** Compares runs of the same rows. Values are paired by row and rollout, so that the difficulty of a row for both runs cancels out. */
import { ConfigError } from '../core/errors.ts';
import { scaleProblem, versionProblem } from '../core/reward-scale.ts';
import { estimateDifferences, exchangeTest, holm } from '../core/paired-statistics.ts';
import { Random } from '../core/random.ts';
import { forkFigures } from '../rollouts/fork-figures.ts';
import { runLabels } from '../core/setting-differences.ts';
import type { ByExample } from '../core/statistics.ts';
import { estimate } from '../core/statistics.ts';
import type { ComparedPair, ComparedSide, Comparison, RowDifference } from '../schemas/comparison.ts';
import type { Estimate } from '../schemas/summary.ts';
import { suggestion } from '../core/closest-name.ts';
import type { ComparedRow, ComparedRun } from './compared-run.ts';
import type { RecordedRollout } from './recorded-rollout.ts';
import { isSameContent } from './row-content.ts';
import { settingChanges } from './run-config.ts';
import { passEstimates, PASS_THRESHOLD } from './summary.ts';

export interface CompareOptions {
  /** `reward`, or the name of a metric. @default reward */
  readonly metric?: string;
  /** Compares every run with every other one, instead of with the first. @default false */
  readonly allPairs?: boolean;
  /** Treats rows with the same id as the same row, whatever they hold. @default false */
  readonly byId?: boolean;
  /** Seed of the bootstrap. @default 0 */
  readonly seed?: number;
  /** Draws of the bootstrap. @default 10000, fewer for very many rows */
  readonly resamples?: number;
}

const RESAMPLES = 10_000;
const FEWEST_RESAMPLES = 1000;
/** Rows times draws times metrics: some seconds. */
const MOST_DRAWS = 1e9;
const NAMES = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** Throws ConfigError for fewer than two runs, runs of other rows, or a metric that no run has. */
export function compareRuns(runs: readonly ComparedRun[], options: CompareOptions = {}): Comparison {
  const { metric = 'reward', allPairs = false, byId = false, seed = 0 } = options;
  if (runs.length < 2) throw new ConfigError('A comparison needs at least two runs. Name their results folders.');
  assertSameRows(runs, byId);
  const common = commonRows(runs);
  if (metric !== 'reward') assertMetric(runs, metric);
  const { resamples = affordableResamples(common.map((id) => runs[0]!.rows.get(id)!)) } = options;
  const named = runs.map(({ metadata }) => ({ name: metadata.name ?? null, settings: metadata.config }));
  const labels = runLabels(named);
  const sides = runs.map((run, i) =>
    comparedSide(run, { name: nameOf(i), run: named[i]!.name === null ? null : labels[i]!, first: runs[0]!, common, metric }),
  );
  const choices = runs.flatMap((_, i) => runs.slice(i + 1).map((_run, j) => [i, i + 1 + j] as const)).filter(([i]) => allPairs || i === 0);
  const pairs = choices.map(([i, j]) =>
    comparedPair({
      first: nameOf(i),
      second: nameOf(j),
      problem: versionProblem({ name: nameOf(i), config: runs[i]!.metadata.config }, { name: nameOf(j), config: runs[j]!.metadata.config }),
      rows: common.map((id) => [runs[i]!.rows.get(id)!, runs[j]!.rows.get(id)!]),
      metric,
      seed,
      resamples,
    }),
  );
  return { metric, rows: common.length, seed, resamples, passThreshold: PASS_THRESHOLD, sides, pairs: adjusted(pairs) };
}

/** Fewer draws for very many rows. */
function affordableResamples(rows: readonly ComparedRow[]): number {
  const metrics = Math.max(
    ...rows.slice(0, 100).flatMap(({ rollouts }) => [...rollouts.values()].map((rollout) => Object.keys(rollout.metrics).length)),
  );
  return Math.max(FEWEST_RESAMPLES, Math.min(RESAMPLES, Math.floor(MOST_DRAWS / (rows.length * (1 + metrics)))));
}

/** A to Z, then AA, AB, ... */
export function nameOf(i: number): string {
  const last = NAMES[i % NAMES.length]!;
  return i < NAMES.length ? last : nameOf(Math.floor(i / NAMES.length) - 1) + last;
}

/** Throws ConfigError if two runs share an id whose rows differ. */
function assertSameRows(runs: readonly ComparedRun[], byId: boolean): void {
  const [first, ...others] = runs;
  for (const other of others) {
    const shared = [...first!.rows].filter(([id]) => other.rows.has(id));
    const where = `${other.directory} has other rows than ${first!.directory}`;
    if (shared.length === 0) throw new ConfigError(`${where}: no id is in both. Compare runs of the same data.`);
    if (byId) continue;
    const unknown = shared.some(([id, { content }]) => content === null || other.rows.get(id)!.content === null)
      ? scaleProblemOf(first!, other)
      : null;
    if (unknown !== null)
      throw new ConfigError(
        `${unknown}. An evaluation of a training has no questions on file, so nothing shows that equal ids are the same rows. Compare evaluations of one environment, or pair rows by id alone with --by-id.`,
      );
    const differing = shared.filter(([id, row]) => !isSameContent(row.content, other.rows.get(id)!.content));
    if (differing.length === 0) continue;
    const [[id, row]] = differing as [[string, ComparedRow]];
    const shown = (of: ComparedRow) => JSON.stringify((of.answer ?? of.question).slice(0, 60));
    throw new ConfigError(
      `${where}: ${differing.length} of ${shared.length} ids stand for different rows, such as ${JSON.stringify(id)} with ${shown(row)} and ` +
        `${shown(other.rows.get(id)!)}. Compare runs of the same data, or pair rows by id alone with --by-id.`,
    );
  }
}

function scaleProblemOf(...runs: readonly [ComparedRun, ComparedRun]): string | null {
  const [first, second] = runs.map(({ directory, metadata }) => ({ name: directory, config: metadata.config }));
  return scaleProblem(first!, second!);
}

/** True if the runs share rows, and no id stands for two of them. */
export function haveSameRows(first: ComparedRun, other: ComparedRun): boolean {
  const shared = [...first.rows].filter(([id]) => other.rows.has(id));
  return shared.length > 0 && shared.every(([id, row]) => isSameContent(row.content, other.rows.get(id)!.content));
}

/** Ids that every run has, in the order of the first. */
function commonRows(runs: readonly ComparedRun[]): string[] {
  const common = [...runs[0]!.rows.keys()].filter((id) => runs.every(({ rows }) => rows.has(id)));
  if (common.length > 0) return common;
  throw new ConfigError('No row is in all of the runs. Compare runs of the same data, two at a time if each shares rows only with some.');
}

function assertMetric(runs: readonly ComparedRun[], metric: string): void {
  for (const { directory, rows } of runs) {
    const names = new Set([...rows.values()].flatMap(({ rollouts }) => [...rollouts.values()].flatMap(({ metrics }) => Object.keys(metrics))));
    if (names.has(metric)) continue;
    throw new ConfigError(
      `${directory} has no metric "${metric}"${suggestion(metric, [...names])}. It has ${['reward', ...names].toSorted().join(', ')}.`,
    );
  }
}

interface SideContext {
  readonly name: string;
  readonly run: string | null;
  readonly first: ComparedRun;
  readonly common: readonly string[];
  readonly metric: string;
}

function comparedSide(run: ComparedRun, { name, run: label, first, common, metric }: SideContext): ComparedSide {
  const { directory, metadata, rows, notes = [] } = run;
  const groups = common.map((id) => [...rows.get(id)!.rollouts.values()]);
  const finished = groups.map((group) => group.filter(isScored));
  const passes = passEstimates(
    finished.filter((group) => group.length > 0),
    { rolloutsPerExample: metadata.rollouts_per_example },
  );
  const total = groups.flat().length;
  const scored = finished.flat().length;
  return {
    name,
    run: label,
    directory,
    envId: metadata.env_id,
    model: metadata.model,
    changes: [...notes, ...(run === first ? [] : settingChanges(first.metadata.config, metadata.config))],
    finished: scored,
    failed: total - scored,
    ...forkFigures(groups.flat()),
    otherRows: rows.size - common.length,
    mean: estimate(finished.map((group) => group.map((r) => valueOf(r, metric)).filter((v) => v !== null))),
    passAtK: passes.atK,
    passAllK: passes.allK,
  };
}

interface PairContext {
  readonly first: string;
  readonly second: string;
  /** Why the rewards have no common scale; null if they have one. */
  readonly problem: string | null;
  readonly rows: readonly (readonly [ComparedRow, ComparedRow])[];
  readonly metric: string;
  readonly seed: number;
  readonly resamples: number;
}

type RolloutPair = readonly [RecordedRollout, RecordedRollout];

function comparedPair({ first, second, problem, rows: all, metric, seed, resamples }: PairContext): ComparedPair {
  const rows = problem === null ? all : [];
  const paired = rows.map(([a, b]) => pairsOf(a, b));
  const values = paired.map((pairs) => valuesOf(pairs, metric));
  const names = sharedMetrics(paired).filter((name) => name !== metric);
  const tasks = [...new Set(paired.flat().map(([a]) => a.task))].filter((task) => task !== null);
  const main = differences(values);
  const quantities = [
    main,
    ...names.map((name) => differences(paired.map((pairs) => valuesOf(pairs, name)))),
    ...tasks.map((task) => main.map((row, i) => (paired[i]![0]?.[0].task === task ? row : []))),
  ];
  const [difference, ...others] = estimateDifferences(quantities, { random: Random.fromSeed(seed), resamples });
  const byName = (keys: readonly string[], from: number) =>
    Object.fromEntries(keys.map((key, i) => [key, others[from + i]!] as const).filter(([, found]) => found !== null)) as Record<string, Estimate>;
  const rowDifferences = rows.map(([a, b], i) => rowDifference(a.question === '' ? b : a, values[i]!)).filter((row) => row !== null);
  const wins = rowDifferences.filter((row) => row.second > row.first).length;
  const losses = rowDifferences.filter((row) => row.second < row.first).length;
  const pairs = main.reduce((sum, row) => sum + row.length, 0);
  const scored = rows.flat().reduce((sum, { rollouts }) => sum + [...rollouts.values()].filter((r) => valueOf(r, metric) !== null).length, 0);
  return {
    first,
    second,
    notComparable: problem,
    pairs,
    rows: rowDifferences.length,
    unpaired: scored - 2 * pairs,
    difference: difference!,
    mcnemar: mcnemar(values, main),
    wins,
    losses,
    ties: rowDifferences.length - wins - losses,
    metrics: byName(names, 0),
    ...(tasks.length === 0 ? {} : { tasks: byName(tasks, names.length) }),
    rowDifferences: rowDifferences
      .filter((row) => row.first !== row.second)
      .toSorted((a, b) => Math.abs(b.second - b.first) - Math.abs(a.second - a.first)),
  };
}

/** Finished rollouts with the same index. */
function pairsOf(a: ComparedRow, b: ComparedRow): RolloutPair[] {
  return [...a.rollouts].flatMap(([index, first]) => {
    const second = b.rollouts.get(index);
    return second !== undefined && isScored(first) && isScored(second) ? [[first, second] as const] : [];
  });
}

function isScored({ error, reward }: RecordedRollout): boolean {
  return error === null && reward !== null && Number.isFinite(reward);
}

function valueOf(rollout: RecordedRollout, metric: string): number | null {
  if (!isScored(rollout)) return null;
  const value = metric === 'reward' ? rollout.reward : rollout.metrics[metric];
  return value !== undefined && value !== null && Number.isFinite(value) ? value : null;
}

function valuesOf(pairs: readonly RolloutPair[], metric: string): (readonly [number, number])[] {
  return pairs.flatMap(([a, b]) => {
    const [first, second] = [valueOf(a, metric), valueOf(b, metric)];
    return first === null || second === null ? [] : [[first, second] as const];
  });
}

function differences(values: readonly (readonly (readonly [number, number])[])[]): ByExample {
  return values.map((row) => row.map(([first, second]) => second - first));
}

function sharedMetrics(paired: readonly (readonly RolloutPair[])[]): string[] {
  const names = [0, 1].map((side) => new Set(paired.flat().flatMap((pair) => Object.keys(pair[side]!.metrics))));
  return [...names[0]!].filter((name) => names[1]!.has(name));
}

function mcnemar(values: readonly (readonly (readonly [number, number])[])[], main: ByExample): ComparedPair['mcnemar'] {
  const all = values.flat(2);
  if (all.length === 0 || !all.every((v) => v === 0 || v === 1)) return null;
  const test = exchangeTest(main);
  return { ...test, pAdjusted: test.p };
}

function rowDifference({ exampleId, question, answer }: ComparedRow, values: readonly (readonly [number, number])[]): RowDifference | null {
  if (values.length === 0) return null;
  const mean = (side: 0 | 1) => values.reduce((sum, pair) => sum + pair[side], 0) / values.length;
  return { exampleId, question, answer, first: mean(0), second: mean(1), pairs: values.length };
}

function adjusted(pairs: readonly ComparedPair[]): ComparedPair[] {
  const tested = pairs.filter(({ mcnemar: test }) => test !== null);
  const ps = holm(tested.map(({ mcnemar: test }) => test!.p));
  return pairs.map((pair) => (pair.mcnemar === null ? pair : { ...pair, mcnemar: { ...pair.mcnemar, pAdjusted: ps[tested.indexOf(pair)]! } }));
}
