/**
 * The figures of every rollout in a file of results or of a training step, with the place of its line; texts stay on disk. A file that grows is read on from
 * where it ended before. Of two lines of one rollout the later one counts.
 */
import type { RolloutLine, RolloutQuery } from './view-wire.ts';
import type { RecordedRollout } from '../evaluate/recorded-rollout.ts';
import { numberOf, textOf } from './recorded-parts.ts';
import { GrowingFile } from './growing-file.ts';
import { NumberColumn, Names } from './growing-columns.ts';
import { FieldFinder } from './top-level-fields.ts';

const FIELDS = [
  'rollout_id',
  'group_id',
  'rollout_index',
  'reward',
  'stop_condition',
  'num_turns',
  'token_usage',
  'metrics',
  'error',
  'task',
  'restarted',
  'example_id',
  'is_truncated',
] as const;
const FIELD = Object.fromEntries(FIELDS.map((name, i) => [name, i])) as Readonly<Record<(typeof FIELDS)[number], number>>;

/** Failures whose messages are kept. */
const MOST_FAILURES = 1000;

/** What narrows and orders the rows of a set. */
export interface RowQuery extends Omit<RolloutQuery, 'run' | 'set' | 'text' | 'from' | 'count'> {
  /** Rows that a search for text found. */
  readonly among?: ReadonlySet<number>;
}

export class RolloutIndex {
  readonly #file: GrowingFile;
  readonly #finder = new FieldFinder(FIELDS);
  readonly #starts = new NumberColumn();
  readonly #lengths = new NumberColumn();
  readonly #rewards = new NumberColumn();
  readonly #turns = new NumberColumn();
  readonly #tokens = new NumberColumn();
  readonly #tokensRead = new NumberColumn();
  readonly #tokensCached = new NumberColumn();
  readonly #truncated = new NumberColumn();
  readonly #stops = new NumberColumn();
  readonly #errors = new NumberColumn();
  readonly #tasks = new NumberColumn();
  readonly #groups = new NumberColumn();
  readonly #indices = new NumberColumn();
  readonly #metrics = new Map<string, NumberColumn>();
  readonly #names = { stop: new Names(), error: new Names(), task: new Names(), group: new Names() };
  /** The row of each rollout, by the codes of its group and its index in one number. */
  readonly #rows = new Map<number, number>();
  /** Rows that a later line has replaced, or that lie before a restart. */
  readonly #dead = new Set<number>();
  /** What the first failures said, by row. */
  readonly #failures = new Map<number, { readonly message: string; readonly reason?: string }>();
  #count = 0;

  constructor(path: string) {
    this.#file = new GrowingFile(path);
  }

  get path(): string {
    return this.#file.path;
  }

  /** Rollouts. */
  get size(): number {
    return this.#count - this.#dead.size;
  }

  get metricNames(): readonly string[] {
    return [...this.#metrics.keys()];
  }

  get stops(): readonly string[] {
    return this.#names.stop.list;
  }

  get tasks(): readonly string[] {
    return this.#names.task.list;
  }

  /** Reads what was appended since the last call. A missing file has no rollouts; one that was replaced or cut is read from its beginning. */
  refresh(): Promise<void> {
    return this.#file.readOn({ reset: () => this.#reset(), line: (...line) => this.#add(...line) });
  }

  /** The rows that a query finds, in its order. */
  query({ sort = 'order', descending = false, ...filters }: RowQuery = {}): number[] {
    const wanted = this.#filter(filters);
    const rows: number[] = [];
    for (let row = 0; row < this.#count; row++) if (!this.#dead.has(row) && wanted(row)) rows.push(row);
    const column = this.#sortColumn(sort);
    if (column !== null) {
      const sign = descending ? -1 : 1;
      // Missing values come last in both directions.
      rows.sort((a, b) => {
        const [x, y] = [column.at(a), column.at(b)];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y)) || a - b;
        return sign * (x - y) || a - b;
      });
    } else if (descending) rows.reverse();
    return rows;
  }

  /** The row of a rollout; null if the file has none. */
  find(groupId: string, rolloutIndex: number): number | null {
    const group = this.#names.group.find(groupId);
    return group === null ? null : (this.#rows.get(rowKey(group, rolloutIndex)) ?? null);
  }

  /** The line of a row. */
  line(row: number): Promise<string> {
    return this.#file.text(this.#starts.at(row), this.#lengths.at(row));
  }

  /** The bytes of a row's line in the file, `[start, end)`. */
  place(row: number): { readonly start: number; readonly end: number } {
    const start = this.#starts.at(row);
    return { start, end: start + this.#lengths.at(row) };
  }

  /** Null for a rollout that failed. */
  reward(row: number): number | null {
    return orNull(this.#rewards.at(row));
  }

  rewards(rows: readonly number[]): number[] {
    return rows.map((row) => this.reward(row)).filter((reward) => reward !== null);
  }

  groupOf(row: number): string {
    return this.#names.group.list[this.#groups.at(row)]!;
  }

  row(number: number): Omit<RolloutLine, 'question'> {
    const { stop, error, task, group } = this.#names;
    const metrics: Record<string, number> = {};
    for (const [name, column] of this.#metrics) {
      const value = column.at(number);
      if (!Number.isNaN(value)) metrics[name] = value;
    }
    const groupId = group.list[this.#groups.at(number)]!;
    const index = this.#indices.at(number);
    return {
      rollout_id: `${groupId}/${index}`,
      group: groupId,
      index,
      reward: orNull(this.#rewards.at(number)),
      stop: stop.list[this.#stops.at(number)]!,
      turns: this.#turns.at(number),
      tokens: orNull(this.#tokens.at(number)),
      error: nameOf(error, this.#errors.at(number)),
      task: nameOf(task, this.#tasks.at(number)),
      metrics,
    };
  }

  /** What a summary reads of every rollout. */
  facts(): RecordedRollout[] {
    return this.query().map((row) => {
      const { rollout_id: rolloutId, group: groupId, index, reward, stop, turns, error, task, metrics } = this.row(row);
      const cached = this.#tokensCached.at(row);
      return {
        rolloutId,
        groupId,
        index,
        task,
        reward,
        metrics,
        error: error === null ? null : ({ type: error, message: '', ...this.#failures.get(row) } as RecordedRollout['error']),
        stop,
        isTruncated: this.#truncated.at(row) === 1,
        isCut: false,
        turns,
        policy: NO_POLICY,
        usage: { inputTokens: orZero(this.#tokensRead.at(row)), outputTokens: orZero(this.#tokens.at(row)), cachedTokens: orNull(cached) },
        cutObservations: 0,
        endedAtMs: 0,
      };
    });
  }

  #filter(query: Omit<RowQuery, 'sort' | 'descending'>): (row: number) => boolean {
    const tests: ((row: number) => boolean)[] = [];
    const byName = (names: Names, column: NumberColumn, name: string | undefined) => {
      if (name === undefined) return;
      const code = names.find(name);
      tests.push((row) => column.at(row) === code);
    };
    byName(this.#names.stop, this.#stops, query.stop);
    byName(this.#names.task, this.#tasks, query.task);
    byName(this.#names.group, this.#groups, query.group);
    const { min_reward: minReward, max_reward: maxReward, failed, among } = query;
    if (minReward !== undefined) tests.push((row) => this.#rewards.at(row) >= minReward);
    if (maxReward !== undefined) tests.push((row) => this.#rewards.at(row) <= maxReward);
    if (failed !== undefined) tests.push((row) => Number.isNaN(this.#errors.at(row)) !== failed);
    if (among !== undefined) tests.push((row) => among.has(row));
    return (row) => tests.every((test) => test(row));
  }

  #sortColumn(sort: string): Pick<NumberColumn, 'at'> | null {
    if (sort === 'order') return null;
    if (sort === 'reward') return this.#rewards;
    if (sort === 'turns') return this.#turns;
    if (sort === 'tokens') return this.#tokens;
    if (sort === 'id') return this.#groups;
    return sort.startsWith('metric:') ? (this.#metrics.get(sort.slice('metric:'.length)) ?? null) : null;
  }

  #reset(): void {
    this.#count = 0;
    this.#rows.clear();
    this.#dead.clear();
    this.#metrics.clear();
    this.#failures.clear();
  }

  /** Adds the line in `[start, end)` of the piece; a line that is no rollout is left out. */
  #add(piece: Buffer, start: number, end: number, place: number): void {
    const finder = this.#finder;
    if (!finder.find(piece, start, end)) return;
    if (finder.has(FIELD.restarted)) {
      for (let row = 0; row < this.#count; row++) this.#dead.add(row);
      this.#rows.clear();
    }
    const group = finder.string(FIELD.group_id);
    const index = finder.number(FIELD.rollout_index);
    if (group === null || !Number.isInteger(index)) return;
    const row = this.#count++;
    const key = rowKey(this.#names.group.codeOf(group), index);
    const earlier = this.#rows.get(key);
    if (earlier !== undefined) this.#dead.add(earlier);
    this.#rows.set(key, row);
    this.#starts.set(row, place);
    this.#lengths.set(row, end - start);
    this.#groups.set(row, this.#names.group.codeOf(group));
    this.#indices.set(row, index);
    this.#rewards.set(row, finder.number(FIELD.reward));
    this.#turns.set(row, finder.number(FIELD.num_turns));
    this.#stops.set(row, this.#names.stop.codeOf(finder.string(FIELD.stop_condition) ?? ''));
    const task = finder.string(FIELD.task);
    this.#tasks.set(row, task === null ? NaN : this.#names.task.codeOf(task));
    const error = finder.object(FIELD.error);
    const failure = error['error'] ?? error['type'];
    this.#errors.set(row, typeof failure === 'string' ? this.#names.error.codeOf(failure) : NaN);
    if (typeof failure === 'string' && this.#failures.size < MOST_FAILURES) {
      const { reason } = error;
      this.#failures.set(row, { message: textOf(error['message']).slice(0, 2000), ...(typeof reason === 'string' ? { reason } : {}) });
    }
    const usage = finder.object(FIELD.token_usage);
    this.#tokens.set(row, numberOf(usage['output_tokens']) ?? NaN);
    this.#tokensRead.set(row, numberOf(usage['input_tokens']) ?? NaN);
    this.#tokensCached.set(row, numberOf(usage['cached_tokens']) ?? NaN);
    this.#truncated.set(row, Number(finder.text(FIELD.is_truncated) === 'true'));
    for (const [name, value] of Object.entries(finder.object(FIELD.metrics))) {
      if (typeof value !== 'number') continue;
      let column = this.#metrics.get(name);
      if (column === undefined) this.#metrics.set(name, (column = new NumberColumn()));
      column.set(row, value);
    }
  }
}

const NO_POLICY = { model: '', version: 0 };

function orZero(value: number): number {
  return Number.isNaN(value) ? 0 : value;
}

/** Rollouts of a group are far fewer than 2^20. */
function rowKey(group: number, index: number): number {
  return group * 2 ** 20 + index;
}

function nameOf({ list }: Names, code: number): string | null {
  return Number.isNaN(code) ? null : list[code]!;
}

function orNull(value: number): number | null {
  return Number.isNaN(value) ? null : value;
}
