/**
 * Bonuses for properties of a proposal itself, as in Absolute Zero: all are off by default, there and here. A bonus is its measure times its coefficient,
 * at most its maximum, and is added only for a proposal from which something can be learned.
 */
import { type ArgumentKind, isObject } from 'vf-search/environment-kit';
import type { CodeMeasures } from 'vf-search/execution';
import type { TaskRecord } from './records.ts';

const BONUS_NAMES = ['complexity', 'edit_distance', 'halstead', 'diversity'] as const;
/**
 * `complexity`: the cognitive complexity over 15. `edit_distance`: the mean distance between the syntax trees of the program and of each reference. `halstead`: effort,
 * cyclomatic complexity and volume. `diversity`: how rare its values are among those of the buffer. A `code_f` proposal, whose program is given, has diversity alone.
 */
type BonusName = (typeof BONUS_NAMES)[number];

const COMBINATIONS = ['sum', 'multiply', 'sum_multiply'] as const;
const MAX = 0.5;

interface BonusTerm {
  readonly coef: number;
  /** @default 0.5 */
  readonly max?: number;
}

export type BonusSettings = Readonly<Partial<Record<BonusName, BonusTerm>>> & {
  /** The reward plus all bonuses, times all of them, or plus their product. @default 'sum' */
  readonly combine?: (typeof COMBINATIONS)[number];
};

export type BonusMeasures = Readonly<Partial<Record<BonusName, number>>>;

export const bonusesArgument: ArgumentKind<BonusSettings> = {
  expected: `an object with ${BONUS_NAMES.join(', ')}, each {"coef": a number above 0, "max": a number above 0}, and "combine": ${COMBINATIONS.join(', ')}`,
  accepts: (v): v is BonusSettings => {
    if (!isObject(v)) return false;
    const { combine = 'sum', ...terms } = v;
    return (COMBINATIONS as readonly unknown[]).includes(combine) && Object.entries(terms).every(([name, term]) => isName(name) && isTerm(term));
  },
};

const isName = (name: string): name is BonusName => (BONUS_NAMES as readonly string[]).includes(name);
const isPositive = (v: unknown) => Number.isFinite(v) && (v as number) > 0;

function isTerm(v: unknown): boolean {
  if (!isObject(v)) return false;
  const { coef, max = MAX, ...unknown } = v;
  return isPositive(coef) && isPositive(max) && Object.keys(unknown).length === 0;
}

/** The reward with the bonuses that have measures; the reward itself if nothing can be learned, or nothing was measured. */
export function withBonuses(reward: number, measures: BonusMeasures, { combine = 'sum', ...terms }: BonusSettings): number {
  const bonuses = BONUS_NAMES.flatMap((name) => {
    const [measure, term] = [measures[name], terms[name]];
    return measure === undefined || term === undefined ? [] : [Math.min(term.coef * measure, term.max ?? MAX)];
  });
  if (reward <= 0 || bonuses.length === 0) return reward;
  const product = bonuses.reduce((all, bonus) => all * bonus, 1);
  if (combine === 'sum') return bonuses.reduce((sum, bonus) => sum + bonus, reward);
  return combine === 'multiply' ? reward * product : reward + product;
}

/** The measures of a program, in [0, 1] except complexity, which has no upper bound. Without references the distance is 0. */
export function programMeasures(program: CodeMeasures, references: readonly CodeMeasures[]): Required<Omit<BonusMeasures, 'diversity'>> {
  const distances = references.map(({ nodes }) => editDistance(program.nodes, nodes));
  return {
    complexity: program.cognitive / 15,
    edit_distance: distances.reduce((sum, distance) => sum + distance, 0) / Math.max(1, distances.length),
    halstead: 0.5 * Math.min(program.effort / 10_000, 1) + 0.3 * Math.min(program.cyclomatic / 10, 1) + 0.2 * Math.min(program.volume / 500, 1),
  };
}

/** The number of insertions, deletions and replacements that turn one list into the other, divided by the length of the longer one; in [0, 1]. */
export function editDistance(a: readonly string[], b: readonly string[]): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (const [i, each] of a.entries()) {
    const next = [i + 1];
    for (const [j, other] of b.entries()) next.push(Math.min(row[j]! + Number(each !== other), row[j + 1]! + 1, next[j]! + 1));
    row = next;
  }
  return row[b.length]! / Math.max(1, a.length, b.length);
}

/** Mean of 1 - the share of each value among those that are known, in [0, 1]. */
export function valueDiversity(values: readonly string[], known: readonly string[]): number {
  const counts = Map.groupBy(known, (value) => value);
  const surprises = values.map((value) => 1 - (counts.get(value)?.length ?? 0) / Math.max(1, known.length));
  return surprises.reduce((sum, surprise) => sum + surprise, 0) / values.length;
}

/** The values that a proposer chose for others to find: the input of `code_i`, the result of `code_o` and `code_e`, the inputs and results of `code_f`. */
export function soughtValues(record: TaskRecord): readonly string[] {
  if (record.kind === 'code_f') return [...record.inputs, ...record.outputs];
  return [record.kind === 'code_i' ? record.input : record.output];
}
