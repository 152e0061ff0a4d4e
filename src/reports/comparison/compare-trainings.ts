/**
 * Compares trainings: runs with equal settings but for the seed are one group, and groups are compared over seeds and over held-out rows. The first asks whether another
 * seed would show the difference again, the second whether other rows would, with the runs at hand.
 */
import { holm } from '../../core/paired-statistics.ts';
import { estimateOverSeeds, pairedBySeed, welch } from '../../core/seed-statistics.ts';
import { type ComparedRow, type ComparedRun, readComparedRun } from '../../evaluate/compared-run.ts';
import { type CompareOptions, compareRuns, haveSameRows, nameOf } from '../../evaluate/compare-runs.ts';
import type { RecordedRollout } from '../../evaluate/recorded-rollout.ts';
import type { Comparison } from '../../schemas/comparison.ts';
import type {
  ComparedTrainingRun,
  EvaluatedAt,
  SeedEstimate,
  TrainingComparison,
  TrainingGroup,
  TrainingPair,
} from '../../schemas/training-comparison.ts';
import { type ComparedTraining, evaluationFile } from './compared-training.ts';
import { groupTrainings } from './group-trainings.ts';

type Options = Pick<CompareOptions, 'metric' | 'seed' | 'resamples' | 'allPairs'>;

export async function compareTrainings(runs: readonly ComparedTraining[], options: Options = {}): Promise<TrainingComparison> {
  const { metric = 'reward', seed = 0, allPairs = false } = options;
  const groups = groupTrainings(runs).map(({ members, ...group }, i) => trainingGroup({ ...group, name: nameOf(i) }, members));
  const byRows = await compareRows(groups, options);
  const choices = groups.flatMap((_, i) => groups.slice(i + 1).map((_group, j) => [i, i + 1 + j] as const)).filter(([i]) => allPairs || i === 0);
  const pairs = choices.map(([i, j]): TrainingPair => {
    const [first, second] = [groups[i]!, groups[j]!];
    return { first: first.name, second: second.name, seeds: overSeeds(first, second), rows: byRows.pair(first.name, second.name) };
  });
  return { metric, seed, resamples: byRows.resamples, groups, pairs: adjusted(pairs) };
}

function trainingGroup(named: Pick<TrainingGroup, 'name' | 'settings' | 'label'>, members: readonly ComparedTraining[]): TrainingGroup {
  const seeds = new Set<number>();
  const runs = members.map((run): ComparedTrainingRun => {
    const { name, directory, seed, state, reason, step, steps, evaluations } = run;
    const last = evaluations.at(-1) ?? null;
    const counts = state === 'finished' && last !== null && !seeds.has(seed);
    if (counts) seeds.add(seed);
    const best = evaluations.reduce<EvaluatedAt | null>((found, each) => (found === null || each.value > found.value ? each : found), null);
    return { name, directory, seed, state, reason, step, steps, last, best, counts };
  });
  const figures = (which: 'last' | 'best') => estimateOf(counted({ runs }).map((run) => run[which]!));
  return { ...named, runs, last: figures('last'), best: figures('best') };
}

/** The runs that count, by seed. */
function counted({ runs }: Pick<TrainingGroup, 'runs'>): readonly ComparedTrainingRun[] {
  return runs.filter(({ counts }) => counts).toSorted((a, b) => a.seed - b.seed);
}

function estimateOf(evaluated: readonly EvaluatedAt[]): SeedEstimate | null {
  const [only] = evaluated;
  if (only !== undefined && evaluated.length === 1) return { value: only.value, low: only.low, high: only.high, n: only.rollouts, over: 'rows' };
  const estimate = estimateOverSeeds(evaluated.map(({ value }) => value));
  return estimate && { ...estimate, over: 'seeds' };
}

function overSeeds(first: TrainingGroup, second: TrainingGroup): TrainingPair['seeds'] {
  const [a, b] = [counted(first), counted(second)];
  const [left, right] = [a, b].map((runs) => runs.map(({ last }) => last!.value)) as [number[], number[]];
  const isPaired = a.length === b.length && a.every(({ seed }, i) => seed === b[i]!.seed);
  const found = isPaired ? pairedBySeed(left, right) : welch(left, right);
  return found && { ...found, pAdjusted: found.p };
}

function adjusted(pairs: readonly TrainingPair[]): readonly TrainingPair[] {
  const tested = pairs.filter(({ seeds }) => seeds !== null);
  const ps = holm(tested.map(({ seeds }) => seeds!.p));
  return pairs.map((pair) => (pair.seeds === null ? pair : { ...pair, seeds: { ...pair.seeds, pAdjusted: ps[tested.indexOf(pair)]! } }));
}

interface RowComparison {
  readonly resamples: number;
  readonly pair: (first: string, second: string) => TrainingPair['rows'];
}

/** Groups whose last evaluations played the rows of the first group's. */
async function compareRows(groups: readonly TrainingGroup[], options: Options): Promise<RowComparison> {
  const read: { readonly name: string; readonly runs: readonly ComparedRun[] }[] = [];
  for (const { name, ...group } of groups) {
    const runs: ComparedRun[] = [];
    // An evaluation whose rollouts are gone leaves the group without rows, and its figures as they are.
    for (const { directory, last } of counted(group)) {
      const run = await readComparedRun(evaluationFile(directory!, last!.step)).catch(() => null);
      if (run !== null) runs.push(run);
    }
    const reference = read[0]?.runs[0] ?? runs[0];
    if (runs.length > 0 && runs.length === counted(group).length && runs.every((run) => areSameRows(reference!, run))) read.push({ name, runs });
  }
  const none: RowComparison = { resamples: options.resamples ?? 0, pair: () => null };
  if (read.length < 2) return none;
  const comparison = compareRuns(seedsAsRollouts(read.map(({ runs }) => runs)), { ...options, byId: true });
  const sideOf = (name: string) => comparison.sides[read.findIndex((group) => group.name === name)]?.name ?? null;
  return { resamples: comparison.resamples, pair: (first, second) => rowsOf(comparison, sideOf(first), sideOf(second)) };
}

function areSameRows(first: ComparedRun, other: ComparedRun): boolean {
  return (
    first.metadata.env_id === other.metadata.env_id &&
    first.rows.size === other.rows.size &&
    haveSameRows(first, other) &&
    [...first.rows.keys()].every((id) => other.rows.has(id))
  );
}

function rowsOf({ pairs }: Comparison, first: string | null, second: string | null): TrainingPair['rows'] {
  const pair = pairs.find((each) => each.first === first && each.second === second);
  if (pair === undefined || pair.difference === null) return null;
  const { rows, difference, mcnemar, wins, losses, ties } = pair;
  return { rows, difference, mcnemar: mcnemar && { p: mcnemar.p, pAdjusted: mcnemar.pAdjusted, isExact: mcnemar.isExact }, wins, losses, ties };
}

/** Beyond this, groups with other numbers of seeds are compared by the first seeds of each. */
const MOST_REPEATS = 60;

/**
 * The runs of each group as one run, in which the rollouts of a row are those of every seed: their mean is the row's mean over seeds. Groups of other sizes repeat their
 * seeds, so that each counts as often as any other and the k-th seeds are partners.
 */
function seedsAsRollouts(groups: readonly (readonly ComparedRun[])[]): ComparedRun[] {
  const sizes = groups.map(({ length }) => length);
  const multiple = sizes.reduce(leastCommonMultiple, 1);
  const seeds = multiple <= MOST_REPEATS ? multiple : Math.min(...sizes);
  const perRow = Math.max(...groups.flat().map(({ metadata }) => metadata.rollouts_per_example));
  return groups.map((runs) => {
    const [first] = runs as [ComparedRun];
    const rows = [...first.rows].map(([id, row]): [string, ComparedRow] => {
      const rollouts = new Map<number, RecordedRollout>();
      for (let k = 0; k < seeds; k++)
        for (const [index, rollout] of runs[k % runs.length]!.rows.get(id)!.rollouts) rollouts.set(k * perRow + index, rollout);
      return [id, { ...row, rollouts }];
    });
    return { ...first, metadata: { ...first.metadata, rollouts_per_example: seeds * perRow }, rows: new Map(rows) };
  });
}

function leastCommonMultiple(a: number, b: number): number {
  const divisor = (m: number, n: number): number => (n === 0 ? m : divisor(n, m % n));
  return (a * b) / divisor(a, b);
}
