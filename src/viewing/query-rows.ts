/** Sorts and filters the rollouts of a set by their figures. Pure. The search for text is done elsewhere, and its results are passed in. */
import type { RolloutPage, RolloutQuery } from './view-wire.ts';

/** The figures of rollouts by row, in the order of their file. */
export interface RowFigures {
  readonly rows: Iterable<number>;
  /** `reward`, `turns`, `tokens` or `metric:NAME`; NaN if the rollout has none. */
  number(column: string): (row: number) => number;
  name(column: 'stop' | 'task' | 'group' | 'error'): (row: number) => string | null;
  /** Index of a rollout in its group. */
  index(row: number): number;
}

export type RowQuery = Omit<RolloutQuery, 'run' | 'set' | 'text'>;

export interface QueriedRows {
  /** Everything that the query finds, in its order. */
  readonly rows: readonly number[];
  readonly histogram: RolloutPage['histogram'];
}

const BINS = 20;
const DEFAULT_COUNT = 100;
const MOST_COUNT = 500;

/** @param among rows that a search for text found. @default all */
export function queryRows(figures: RowFigures, query: RowQuery, among: ReadonlySet<number> | null = null): QueriedRows {
  const wanted = filterOf(figures, query, among);
  const rows: number[] = [];
  for (const row of figures.rows) if (wanted(row)) rows.push(row);
  const { sort = 'order', descending = false } = query;
  if (sort === 'id') rows.sort(byId(figures, descending));
  else if (sort !== 'order') rows.sort(byNumber(figures.number(sort), descending));
  else if (descending) rows.reverse();
  return { rows, histogram: histogramOf(rows, figures.number('reward')) };
}

/** The part of the rows that the query asks for. */
export function windowOf(rows: readonly number[], { from = 0, count = DEFAULT_COUNT }: Pick<RolloutQuery, 'from' | 'count'>): readonly number[] {
  return rows.slice(from, from + Math.min(count, MOST_COUNT));
}

function filterOf(figures: RowFigures, query: RowQuery, among: ReadonlySet<number> | null): (row: number) => boolean {
  const tests: ((row: number) => boolean)[] = [];
  for (const column of ['stop', 'task', 'group'] as const) {
    const wanted = query[column];
    if (wanted === undefined) continue;
    const name = figures.name(column);
    tests.push((row) => name(row) === wanted);
  }
  const { min_reward: low, max_reward: high, failed } = query;
  const reward = figures.number('reward');
  if (low !== undefined) tests.push((row) => reward(row) >= low);
  if (high !== undefined) tests.push((row) => reward(row) <= high);
  if (failed !== undefined) {
    const error = figures.name('error');
    tests.push((row) => (error(row) !== null) === failed);
  }
  if (among !== null) tests.push((row) => among.has(row));
  return (row) => tests.every((test) => test(row));
}

/** Missing values come last in both directions, equal ones in the order of the file. */
function byNumber(value: (row: number) => number, descending: boolean): (a: number, b: number) => number {
  const sign = descending ? -1 : 1;
  return (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
    return sign * (x - y) || a - b;
  };
}

/** Ids that are numbers come first, by their values; then the others by their characters. Rollouts of a group follow each other. */
function byId(figures: RowFigures, descending: boolean): (a: number, b: number) => number {
  const group = figures.name('group');
  const sign = descending ? -1 : 1;
  return (a, b) => sign * (compareIds(group(a) ?? '', group(b) ?? '') || figures.index(a) - figures.index(b)) || a - b;
}

export function compareIds(a: string, b: string): number {
  if (a === b) return 0;
  const [x, y] = [idNumber(a), idNumber(b)];
  if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
  if (x !== y && !Number.isNaN(x)) return x - y;
  return a < b ? -1 : 1;
}

function idNumber(id: string): number {
  return /^\d{1,15}$/.test(id) ? Number(id) : NaN;
}

function histogramOf(rows: readonly number[], reward: (row: number) => number): RolloutPage['histogram'] {
  let [low, high] = [Infinity, -Infinity];
  for (const row of rows) {
    const value = reward(row);
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return null;
  const counts = Array.from({ length: BINS }, () => 0);
  for (const row of rows) {
    const value = reward(row);
    if (Number.isNaN(value)) continue;
    // Halves each value, because the difference of two large numbers may overflow.
    const share = high === low ? 0 : (value / 2 - low / 2) / (high / 2 - low / 2);
    counts[Math.min(BINS - 1, Math.floor(share * BINS))]! += 1;
  }
  return { low, high, counts };
}
