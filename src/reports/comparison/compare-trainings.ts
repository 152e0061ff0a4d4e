/**
 * Compares trainings: runs with equal settings but for the seed are one group, and groups are compared over seeds and over held-out rows. The first asks whether another
 * seed would show the difference again, the second whether other rows would, with the runs at hand. Rewards without a common scale are not compared.
 */
import { holm } from '../../core/paired-statistics.ts';
import { estimateOverSeeds, pairedBySeed, welch } from '../../core/seed-statistics.ts';
import { type CompareOptions, nameOf } from '../../evaluate/compare-runs.ts';
import type {
  ComparedTrainingRun,
  EvaluatedAt,
  SeedEstimate,
  TrainingComparison,
  TrainingGroup,
  TrainingPair,
} from '../../schemas/training-comparison.ts';
import { compareHeldOutRows, type ComparedRows } from './compare-held-out-rows.ts';
import type { ComparedTraining } from './compared-training.ts';
import { argumentsNote, scaleProblem } from '../../core/reward-scale.ts';
import { groupTrainings } from './group-trainings.ts';

type Options = Pick<CompareOptions, 'metric' | 'seed' | 'resamples' | 'allPairs'>;

export async function compareTrainings(runs: readonly ComparedTraining[], options: Options = {}): Promise<TrainingComparison> {
  const { metric = 'reward', seed = 0, allPairs = false } = options;
  const grouped = groupTrainings(runs);
  const groups = grouped.map(({ members, config: _config, ...group }, i) => trainingGroup({ ...group, name: nameOf(i) }, members));
  const evaluated = groups.map((group) => ({
    name: group.name,
    runs: counted(group).map(({ directory, last }) => ({ directory: directory!, last: last! })),
  }));
  const byRows = await compareHeldOutRows(evaluated, options);
  const choices = groups.flatMap((_, i) => groups.slice(i + 1).map((_group, j) => [i, i + 1 + j] as const)).filter(([i]) => allPairs || i === 0);
  const pairs = choices.map(([i, j]): TrainingPair => {
    const [first, second] = [groups[i]!, groups[j]!];
    const [a, b] = [i, j].map((at) => ({ name: groups[at]!.name, config: grouped[at]!.config })) as [Scaled, Scaled];
    return trainingPair([first, second], { compared: byRows.pair(first.name, second.name), problem: scaleProblem(a, b), note: argumentsNote(a, b) });
  });
  return { metric, seed, resamples: byRows.resamples, groups, pairs: adjusted(pairs), totals: totalsOf(groups) };
}

type Scaled = Parameters<typeof scaleProblem>[0];

function trainingGroup(
  named: Pick<TrainingGroup, 'name' | 'settings' | 'label' | 'run' | 'environment'>,
  members: readonly ComparedTraining[],
): TrainingGroup {
  const seeds = new Set<number>();
  const runs = members.map((run): ComparedTrainingRun => {
    const { name, directory, seed, state, reason, step, steps, evaluations, tokens, seconds, usd } = run;
    const start = evaluations.find((each) => each.step === 0) ?? null;
    const trained = evaluations.filter((each) => each.step > 0);
    const last = trained.at(-1) ?? null;
    const counts = state === 'finished' && last !== null && !seeds.has(seed);
    if (counts) seeds.add(seed);
    const best = trained.reduce<EvaluatedAt | null>((found, each) => (found === null || each.value > found.value ? each : found), null);
    const cost = usd === undefined ? {} : { usd };
    return { name, directory, seed, state, reason, step, steps, start, last, best, counts, tokens, seconds, ...cost };
  });
  const found = counted({ runs });
  const figures = (which: 'last' | 'best') => estimateOf(found.map((run) => run[which]!));
  const started = found.flatMap((run) => (run.start === null ? [] : [{ ...run, start: run.start }]));
  const isStarted = started.length === found.length && found.length > 0;
  const gains = started.map(({ start, last }) => last!.value - start.value);
  return {
    ...named,
    runs,
    last: figures('last'),
    best: figures('best'),
    start: isStarted ? estimateOf(started.map(({ start }) => start)) : null,
    gain: isStarted ? { ...estimateOverSeeds(gains)!, over: 'seeds' } : null,
    beatStart: isStarted ? started.filter(({ start, best }) => best!.value > start.value).length : null,
  };
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

interface PairFacts {
  readonly compared: ComparedRows;
  /** Why the rewards have no common scale. */
  readonly problem: string | null;
  readonly note: string | null;
}

function trainingPair([first, second]: readonly [TrainingGroup, TrainingGroup], { compared, problem, note }: PairFacts): TrainingPair {
  const names = { first: first.name, second: second.name };
  const empty = [first, second].find(({ last }) => last === null);
  const none = problem ?? (empty === undefined ? null : `no run of ${empty.name} counts`);
  if (none !== null) return { ...names, notComparable: problem, note: null, noSeedsTest: none, noRowsTest: none, seeds: null, rows: null };
  const bySeeds = compared.areOthers ? 'the means are of different rows' : overSeeds(first, second);
  const isTested = typeof bySeeds !== 'string';
  return {
    ...names,
    notComparable: null,
    note,
    noSeedsTest: isTested ? null : bySeeds,
    noRowsTest: compared.why,
    seeds: isTested ? bySeeds : null,
    rows: compared.rows,
  };
}

/** The test, or why there is none. */
function overSeeds(first: TrainingGroup, second: TrainingGroup): NonNullable<TrainingPair['seeds']> | string {
  const [a, b] = [counted(first), counted(second)];
  if (a.length < 2 || b.length < 2) return 'each group needs two seeds that finished';
  const [left, right] = [a, b].map((runs) => runs.map(({ last }) => last!.value)) as [number[], number[]];
  const isPaired = a.length === b.length && a.every(({ seed }, i) => seed === b[i]!.seed);
  const found = isPaired ? pairedBySeed(left, right) : welch(left, right);
  if (found !== null) return { ...found, pAdjusted: found.p };
  return isPaired
    ? 'the difference is the same for every seed, so nothing shows how far another seed would be'
    : 'the seeds of each group agree, so nothing shows how far another seed would be';
}

/** Each test corrected for the number of comparisons that it was made in. */
function adjusted(pairs: readonly TrainingPair[]): readonly TrainingPair[] {
  const corrected = (p: (pair: TrainingPair) => number | null) => {
    const tested = pairs.filter((pair) => p(pair) !== null);
    const ps = holm(tested.map((pair) => p(pair)!));
    return (pair: TrainingPair) => ps[tested.indexOf(pair)]!;
  };
  const [ofSeeds, ofRows] = [corrected(({ seeds }) => seeds?.p ?? null), corrected(({ rows }) => rows?.mcnemar?.p ?? null)];
  return pairs.map((pair) => {
    const { seeds, rows } = pair;
    const mcnemar = rows?.mcnemar ?? null;
    return {
      ...pair,
      seeds: seeds && { ...seeds, pAdjusted: ofSeeds(pair) },
      rows: rows && { ...rows, mcnemar: mcnemar && { ...mcnemar, pAdjusted: ofRows(pair) } },
    };
  });
}

function totalsOf(groups: readonly TrainingGroup[]): TrainingComparison['totals'] {
  const runs = groups.flatMap((group) => group.runs);
  const sum = (of: (run: ComparedTrainingRun) => number) => runs.reduce((total, run) => total + of(run), 0);
  const costs = runs.flatMap(({ usd }) => (usd === undefined ? [] : [usd]));
  return {
    tokens: { sampled: sum(({ tokens }) => tokens.sampled), trained: sum(({ tokens }) => tokens.trained) },
    seconds: sum(({ seconds }) => seconds),
    ...(costs.length === 0 ? {} : { usd: costs.reduce((total, usd) => (total === null || usd === null ? null : total + usd), 0) }),
  };
}
