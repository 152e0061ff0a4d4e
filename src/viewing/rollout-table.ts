/** The figures of every rollout of a file, with the place of its line; texts stay on disk. If a rollout has two lines, the later one counts; a finished one that has is noted. */
import type { RecordedRollout } from '../evaluate/recorded-rollout.ts';
import { rowContent } from '../evaluate/row-content.ts';
import { FoundKinds, numberProblem } from './field-kinds.ts';
import { NumberColumn, Names } from './growing-columns.ts';
import { fieldsOf, listOf } from './loose-fields.ts';
import { LineProblems } from './line-problems.ts';
import type { RowFigures } from './query-rows.ts';
import { promptOf, questionOf } from './record-parts.ts';
import { ROLLOUT_FIELDS, ROLLOUT_KINDS } from './rollout-fields.ts';
import { FieldFinder } from './top-level-fields.ts';

const FIELD = Object.fromEntries(ROLLOUT_FIELDS.map((name, i) => [name, i])) as Readonly<Record<(typeof ROLLOUT_FIELDS)[number], number>>;

const NUMBERS = ['start', 'length', 'reward', 'turns', 'tokens', 'input', 'cached', 'truncated', 'index', 'unpaid', 'guessed', 'ignored'] as const;
const CODES = ['stop', 'error', 'reason', 'task', 'group', 'role'] as const;
type Fork = NonNullable<RecordedRollout['forks']>[number];
type Numbers = Readonly<Record<(typeof NUMBERS)[number], NumberColumn>>;
type Codes = Readonly<Record<(typeof CODES)[number], { readonly column: NumberColumn; readonly names: Names }>>;

export interface TableFigures {
  readonly reward: number | null;
  readonly turns: number;
  readonly tokens: number | null;
  readonly input: number | null;
  readonly cached: number | null;
  readonly isTruncated: boolean;
  readonly isUnpaid: boolean;
}

export class RolloutTable implements RowFigures {
  readonly #finder = new FieldFinder(ROLLOUT_FIELDS);
  readonly #kinds = new FoundKinds(ROLLOUT_FIELDS, ROLLOUT_KINDS);
  readonly #problems: LineProblems;
  readonly #numbers = Object.fromEntries(NUMBERS.map((name) => [name, new NumberColumn()])) as Numbers;
  readonly #codes = Object.fromEntries(CODES.map((name) => [name, { column: new NumberColumn(), names: new Names() }])) as Codes;
  readonly #metrics = new Map<string, NumberColumn>();
  /** The row of each rollout, by the codes of its group and its index in one number. */
  readonly #rows = new Map<number, number>();
  /** Digests by the code of the group. */
  readonly #contents = new NumberColumn();
  /** Rows that a later line has replaced, or that lie before a restart. */
  readonly #dead = new Set<number>();
  /** Forks of the rollouts that have some. What differed is kept of the first of each kind only: there may be many. */
  readonly #forks = new Map<number, readonly Fork[]>();
  readonly #forkKinds = new Set<string>();
  /** The last message of each class of error. */
  readonly errorMessages = new Map<string, string>();
  #count = 0;
  #closing: number | null = null;
  /** Lines of rollouts that had finished in an earlier line, and the number of the first. */
  repeated = 0;
  firstRepeated = 0;

  /** @param problems gets what is wrong with the lines, of which it counts each before it is added */
  constructor(problems = new LineProblems()) {
    this.#problems = problems;
  }

  get size(): number {
    return this.#count - this.#dead.size;
  }

  /** Number of rows that were ever added: a larger number means that there are new ones. */
  get count(): number {
    return this.#count;
  }

  /** True if a closing line says that these are all rollouts of a step. */
  get isComplete(): boolean {
    return this.#closing !== null && this.#closing === this.size;
  }

  get metricNames(): readonly string[] {
    return [...this.#metrics.keys()];
  }

  get stops(): readonly string[] {
    return this.#codes.stop.names.list;
  }

  get tasks(): readonly string[] {
    return this.#codes.task.names.list;
  }

  get rows(): Iterable<number> {
    return this.#living();
  }

  *#living(): Generator<number> {
    for (let row = 0; row < this.#count; row++) if (!this.#dead.has(row)) yield row;
  }

  number(column: string): (row: number) => number {
    const found = column.startsWith('metric:') ? this.#metrics.get(column.slice(7)) : this.#numbers[column as 'reward' | 'turns' | 'tokens'];
    return found === undefined ? () => NaN : (row) => found.at(row);
  }

  name(column: 'stop' | 'error' | 'reason' | 'task' | 'group' | 'role'): (row: number) => string | null {
    const { column: codes, names } = this.#codes[column];
    return (row) => names.name(codes.at(row));
  }

  index(row: number): number {
    return this.#numbers.index.at(row);
  }

  place(row: number): { readonly start: number; readonly length: number } {
    return { start: this.#numbers.start.at(row), length: this.#numbers.length.at(row) };
  }

  /** The row of a rollout; null if the file has none. */
  find(groupId: string, index: number): number | null {
    const group = this.#codes.group.names.find(groupId);
    return group === null ? null : (this.#rows.get(rowKey(group, index)) ?? null);
  }

  /** Digest of a group's question, as a number that another file has for the same question; null if the lines do not say. */
  content(groupId: string): number | null {
    const group = this.#codes.group.names.find(groupId);
    return group === null ? null : orNull(this.#contents.at(group));
  }

  metrics(row: number): Record<string, number> {
    // Names come from files, so even __proto__ is an ordinary one.
    const metrics = Object.create(null) as Record<string, number>;
    for (const [name, column] of this.#metrics) {
      const value = column.at(row);
      if (!Number.isNaN(value)) metrics[name] = value;
    }
    return metrics;
  }

  figures(row: number): TableFigures {
    const { reward, turns, tokens, input, cached, truncated, unpaid } = this.#numbers;
    return {
      reward: orNull(reward.at(row)),
      turns: orNull(turns.at(row)) ?? 0,
      tokens: orNull(tokens.at(row)),
      input: orNull(input.at(row)),
      cached: orNull(cached.at(row)),
      isTruncated: truncated.at(row) === 1,
      isUnpaid: unpaid.at(row) === 1,
    };
  }

  forks(row: number): readonly Fork[] {
    return this.#forks.get(row) ?? [];
  }

  /** Gives a rollout the reward and metrics of a line of its phase's rewards. Ignores those of other rollouts; false for a line that is none. */
  pay(bytes: Buffer, start: number, end: number): boolean {
    const finder = this.#finder;
    const group = finder.find(bytes, start, end) ? finder.string(FIELD.group_id) : null;
    const row = group === null ? null : this.find(group, finder.number(FIELD.rollout_index));
    const { reward, unpaid } = this.#numbers;
    if (row !== null && Number.isNaN(this.#codes.error.column.at(row))) {
      reward.set(row, finite(finder.number(FIELD.reward)));
      unpaid.set(row, 0);
      this.#setMetrics(row, finder.object(FIELD.metrics));
    }
    return group !== null && this.#kinds.problem(finder) === null;
  }

  /** Adds the line in `[start, end)` of the bytes, which begins at `place` of the file. */
  add(bytes: Buffer, start: number, end: number, place: number): void {
    const finder = this.#finder;
    if (!finder.find(bytes, start, end)) return this.#problems.leaveOut('is no JSON object');
    if (finder.has(FIELD.restarted)) this.#restart();
    const group = finder.string(FIELD.group_id);
    const index = finder.number(FIELD.rollout_index);
    if (group === null || !(Number.isInteger(index) && index >= 0 && index < MOST_INDEX)) {
      if (finder.has(FIELD.complete)) this.#closing = finder.number(FIELD.rollouts);
      else if (!finder.has(FIELD.restarted)) this.#problems.leaveOut('names no rollout');
      return;
    }
    this.#addRollout(group, index, { place, length: end - start });
  }

  #restart(): void {
    for (let row = 0; row < this.#count; row++) this.#dead.add(row);
    this.#rows.clear();
    this.#closing = null;
  }

  #addRollout(group: string, index: number, { place, length }: { readonly place: number; readonly length: number }): void {
    const finder = this.#finder;
    const { names, column } = this.#codes.group;
    const row = this.#count++;
    const code = names.codeOf(group);
    const key = rowKey(code, index);
    const earlier = this.#rows.get(key);
    if (earlier !== undefined) this.#replace(earlier);
    this.#rows.set(key, row);
    column.set(row, code);
    if (Number.isNaN(this.#contents.at(code))) this.#contents.set(code, this.#content());
    const usage = finder.object(FIELD.token_usage);
    const { output_tokens: tokens, input_tokens: input, cached_tokens: cached } = usage;
    const metrics = finder.object(FIELD.metrics);
    const wrong = this.#kinds.problem(finder) ?? numberProblem(metrics, 'metrics.') ?? numberProblem(usage, 'token_usage.');
    if (wrong !== null) this.#problems.note(wrong);
    const values = {
      start: place,
      length,
      index,
      reward: finite(finder.number(FIELD.reward)),
      turns: finite(finder.number(FIELD.num_turns)),
      tokens: numberOf(tokens),
      input: numberOf(input),
      cached: numberOf(cached),
      truncated: Number(finder.text(FIELD.is_truncated) === 'true'),
      unpaid: Number(finder.has(FIELD.unpaid)),
      guessed: finite(finder.number(FIELD.guessed_stops)),
      ignored: finite(finder.number(FIELD.ignored_stops)),
    };
    for (const name of NUMBERS) this.#numbers[name].set(row, values[name]);
    this.#setCode(row, 'stop', finder.string(FIELD.stop_condition) ?? '');
    this.#setCode(row, 'task', finder.string(FIELD.task));
    this.#setCode(row, 'role', finder.string(FIELD.role));
    this.#addError(row);
    this.#addForks(row);
    this.#setMetrics(row, metrics);
  }

  #replace(earlier: number): void {
    this.#dead.add(earlier);
    // A failed one may have been played again.
    const hadFinished = Number.isNaN(this.#codes.error.column.at(earlier));
    if (hadFinished && this.repeated++ === 0) this.firstRepeated = this.#problems.line;
  }

  #setMetrics(row: number, metrics: Readonly<Record<string, unknown>>): void {
    for (const [name, value] of Object.entries(metrics)) {
      if (typeof value !== 'number' || !Number.isFinite(value)) continue;
      let metric = this.#metrics.get(name);
      if (metric === undefined) this.#metrics.set(name, (metric = new NumberColumn()));
      metric.set(row, value);
    }
  }

  /** Lines of training steps hold their prompts as tokens, which do not identify the data. */
  #content(): number {
    const finder = this.#finder;
    if (!finder.has(FIELD.prompt)) return NaN;
    const [answer, info] = [finder.json(FIELD.answer), finder.json(FIELD.info)];
    const asked = answer === undefined && info === undefined ? questionOf(promptOf({ prompt: finder.json(FIELD.prompt) }, null)) : '';
    const content = rowContent({ asked, answer, info });
    return content === null ? NaN : Buffer.from(content, 'base64').readUIntBE(0, DIGEST_BYTES);
  }

  #addForks(row: number): void {
    if (!this.#finder.has(FIELD.branches)) return;
    const forks = listOf(this.#finder.json(FIELD.branches)).flatMap((branch): Fork[] => {
      const { kind, at, difference } = fieldsOf(fieldsOf(branch)['fork']);
      if (typeof kind !== 'string') return [];
      const isFirst = !this.#forkKinds.has(kind);
      this.#forkKinds.add(kind);
      return [{ kind: kind as Fork['kind'], at: Number(at), difference: isFirst && typeof difference === 'string' ? difference : '' }];
    });
    if (forks.length > 0) this.#forks.set(row, forks);
  }

  #addError(row: number): void {
    const { error, type, reason, message } = this.#finder.object(FIELD.error);
    const name = error ?? type;
    const named = typeof name === 'string' ? name : this.#finder.has(FIELD.error) && this.#finder.text(FIELD.error) !== 'null' ? 'Error' : null;
    this.#setCode(row, 'error', named);
    this.#setCode(row, 'reason', typeof reason === 'string' ? reason : null);
    if (named !== null) this.errorMessages.set(named, typeof message === 'string' ? message.slice(0, 2000) : '');
  }

  #setCode(row: number, column: (typeof CODES)[number], name: string | null): void {
    const { names, column: codes } = this.#codes[column];
    codes.set(row, name === null ? NaN : names.codeOf(name));
  }
}

/** Bytes of a digest: a number cannot hold more exactly. */
const DIGEST_BYTES = 6;

/** Rollouts of a group are far fewer. */
const MOST_INDEX = 2 ** 20;

function rowKey(group: number, index: number): number {
  return group * MOST_INDEX + index;
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? finite(value) : NaN;
}

/** Files of other programs may hold NaN and Infinity. */
function finite(value: number): number {
  return Number.isFinite(value) ? value : NaN;
}

export function orNull(value: number): number | null {
  return Number.isNaN(value) ? null : value;
}
