/** Compares groups of trainings over the rows of their last evaluations: each row has its mean over the seeds of its group. Only groups that played the same rows are compared. */
import { thrownText } from '../../core/errors.ts';
import { type ComparedRow, type ComparedRun, readComparedRun } from '../../evaluate/compared-run.ts';
import { type CompareOptions, compareRuns, haveSameRows } from '../../evaluate/compare-runs.ts';
import type { RecordedRollout } from '../../evaluate/recorded-rollout.ts';
import type { Comparison } from '../../schemas/comparison.ts';
import type { EvaluatedAt, TrainingGroup, TrainingPair } from '../../schemas/training-comparison.ts';
import { countText, plural } from '../text/number-text.ts';
import { evaluationFile } from './compared-training.ts';

export interface EvaluatedGroup extends Pick<TrainingGroup, 'name'> {
  /** Those that count, by seed. */
  readonly runs: readonly { readonly directory: string; readonly last: EvaluatedAt }[];
}

export interface HeldOutRows {
  readonly resamples: number;
  readonly pair: (first: string, second: string) => ComparedRows;
}

export interface ComparedRows {
  readonly rows: TrainingPair['rows'];
  /** Why there is no comparison; null if there is one. */
  readonly why: string | null;
  /** True if the groups are known to have played other rows: their means are then of other questions. */
  readonly areOthers: boolean;
}

interface Played {
  readonly name: string;
  readonly runs: readonly ComparedRun[];
  /** Why its rows cannot be compared with any; null if they can. */
  readonly problem: string | null;
}

export async function compareHeldOutRows(groups: readonly EvaluatedGroup[], options: CompareOptions): Promise<HeldOutRows> {
  const played: Played[] = [];
  for (const group of groups) played.push(await readPlayed(group));
  const alike: Played[][] = [];
  for (const group of played.filter(({ problem, runs }) => problem === null && runs.length > 0)) {
    const others = alike.find(([first]) => differenceOfRows(first!, group) === null);
    if (others === undefined) alike.push([group]);
    else others.push(group);
  }
  const compared = alike
    .filter((members) => members.length > 1)
    .map((members) => ({ members, comparison: compareRuns(seedsAsRollouts(members.map(({ runs }) => runs)), { ...options, byId: true }) }));
  const byName = new Map(played.map((group) => [group.name, group]));
  const pair = (first: string, second: string): ComparedRows => {
    const [a, b] = [byName.get(first)!, byName.get(second)!];
    const problem = a.problem ?? b.problem;
    if (problem !== null) return { rows: null, why: problem, areOthers: false };
    const found = compared.find(({ members }) => members.includes(a) && members.includes(b));
    if (found === undefined) return { rows: null, why: differenceOfRows(a, b), areOthers: true };
    const sideOf = (group: Played) => found.comparison.sides[found.members.indexOf(group)]!.name;
    const rows = rowsOf(found.comparison, sideOf(a), sideOf(b));
    return { rows, why: rows === null ? 'no row has finished rollouts in both' : null, areOthers: false };
  };
  return { resamples: compared[0]?.comparison.resamples ?? options.resamples ?? 0, pair };
}

async function readPlayed({ name, runs: evaluated }: EvaluatedGroup): Promise<Played> {
  const runs: ComparedRun[] = [];
  for (const { directory, last } of evaluated) {
    const file = evaluationFile(directory, last.step);
    try {
      runs.push(await readComparedRun(file));
    } catch (error) {
      // The group keeps its figures, which metrics.jsonl has.
      return { name, runs: [], problem: `the rollouts of an evaluation of ${name} cannot be read: ${thrownText(error)}` };
    }
  }
  const other = runs.find((run) => !areSameRows(runs[0]!, run));
  const problem = other === undefined ? null : `the runs of ${name} did not play the same rows: ${sharedText(runs[0]!, other)}`;
  return { name, runs, problem };
}

/** Null if the groups played the same rows. */
function differenceOfRows(a: Played, b: Played): string | null {
  const [first, second] = [a.runs[0], b.runs[0]];
  if (first === undefined || second === undefined || areSameRows(first, second)) return null;
  return `${a.name} and ${b.name} did not play the same held-out rows: ${sharedText(first, second)}. Evaluate both on the same rows ([evaluation] examples)`;
}

/** `20 rows are in both, of 240 and 20`; ids that stand for other rows are not shared. */
function sharedText(first: ComparedRun, second: ComparedRun): string {
  const ids = [...first.rows.keys()].filter((id) => second.rows.has(id));
  const shared = ids.length === 0 || haveSameRows(first, second) ? ids.length : 0;
  return `${plural(shared, 'row')} ${shared === 1 ? 'is' : 'are'} in both, of ${countText(first.rows.size)} and ${countText(second.rows.size)}`;
}

function areSameRows(first: ComparedRun, other: ComparedRun): boolean {
  return first.rows.size === other.rows.size && haveSameRows(first, other) && [...first.rows.keys()].every((id) => other.rows.has(id));
}

function rowsOf({ pairs }: Comparison, first: string, second: string): TrainingPair['rows'] {
  const pair = pairs.find((each) => each.first === first && each.second === second);
  if (pair === undefined || pair.difference === null) return null;
  const { rows, difference, mcnemar, wins, losses, ties } = pair;
  return { rows, difference, mcnemar: mcnemar && { p: mcnemar.p, pAdjusted: mcnemar.p, isExact: mcnemar.isExact }, wins, losses, ties };
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
