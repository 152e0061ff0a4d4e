import { messagesProblem } from './check-messages.ts';
import { isObject } from '../schemas/is-object.ts';
import { kindOf } from '../schemas/kind-of.ts';
import { ConfigError } from './errors.ts';
import type { Message } from './message.ts';
import type { Random } from './random.ts';

/** One task: the prompt for the policy, and what the rubric needs for scoring. */
export interface Row {
  /** Unique within its dataset, also as text (1 and "1" are one id), and stable across runs: groups and resume identify rows by it. */
  readonly exampleId: string | number;
  readonly prompt: readonly Message[];
  /** The reference answer, if it is one string. */
  readonly answer?: string;
  /** The row's environment in an EnvGroup, or any other kind of row that rubrics and metrics distinguish. */
  readonly task?: string;
  /** The part that the policy plays, if an environment has several: `propose`, `solve`. @default rows have no roles */
  readonly role?: string;
  /** Everything else that the rubric needs. Plain JSON, because it is written to the results. */
  readonly info?: Readonly<Record<string, unknown>>;
}

/**
 * An immutable, indexable sequence of rows. The constructor throws ConfigError unless every row has an id of its own, a prompt that is a list of messages, and other fields of their types. A field that is null, as in JSON, counts as left out.
 * @example new Dataset('sums', [{ exampleId: 0, prompt: [{ role: 'user', content: '2 + 2?' }], answer: '4' }])
 */
export class Dataset<R extends Row = Row> implements Iterable<R> {
  readonly name: string;
  readonly #rows: readonly R[];

  constructor(name: string, rows: readonly R[]) {
    if (!Array.isArray(rows)) throw new ConfigError(`The rows of ${name} must be a list, got ${kindOf(rows)}`);
    for (const [place, row] of rows.entries()) {
      const problem = rowProblem(row);
      if (problem === null) continue;
      const shown = JSON.stringify((row as Row | null)?.exampleId) ?? `at position ${place}`;
      throw new ConfigError(`Row ${shown} of ${name} cannot be played: ${problem}. Correct the row.`);
    }
    const repeated = repeatedIdText(rows);
    if (repeated !== null) throw new ConfigError(`${repeated} in ${name}. Give each its own exampleId.`);
    this.name = name;
    this.#rows = rows.some(hasNulls) ? rows.map(withoutNulls) : rows;
  }

  get length(): number {
    return this.#rows.length;
  }

  /** The row at `index`, from 0 to length - 1. Throws ConfigError outside this range, so that rows are never repeated silently. */
  at(index: number): R {
    const row = this.#rows[index];
    if (row === undefined)
      throw new ConfigError(`${this.name} has no row ${index}; ${this.length === 0 ? 'it is empty' : `its rows are 0 to ${this.length - 1}`}`);
    return row;
  }

  [Symbol.iterator](): IterableIterator<R> {
    return this.#rows[Symbol.iterator]() as IterableIterator<R>;
  }

  /** The first `n` rows, or all of them if there are fewer. Throws ConfigError unless n is an integer of at least 0. */
  take(n: number): Dataset<R> {
    if (!(Number.isInteger(n) && n >= 0)) throw new ConfigError(`The number of rows must be an integer of at least 0, got ${n}`);
    return new Dataset(this.name, this.#rows.slice(0, n));
  }

  /** The same rows in random order. */
  shuffle(random: Random): Dataset<R> {
    return new Dataset(this.name, random.shuffle(this.#rows));
  }
}

/** Says which two rows have one id, such as `The rows 0 and 4 both have the id "a"`; null if each has its own. Groups and files know an id as text. */
export function repeatedIdText(rows: readonly Pick<Row, 'exampleId'>[]): string | null {
  const places = new Map<string, number>();
  for (const [place, { exampleId }] of rows.entries()) {
    const id = String(exampleId);
    const before = places.get(id);
    if (before !== undefined) return `The rows ${before} and ${place} both have the id ${JSON.stringify(id)}`;
    places.set(id, place);
  }
  return null;
}

/** Describes why the value is not a row; null if it is one. */
export function rowProblem(row: Row): string | null {
  return idProblem(row) ?? messagesProblem(row.prompt, 'prompt') ?? fieldProblem(row);
}

/** The other fields may be left out. */
function fieldProblem(row: Row): string | null {
  const odd = TEXTS.find((name) => row[name] !== undefined && row[name] !== null && typeof row[name] !== 'string');
  if (odd !== undefined) return `${odd} must be a string, got ${JSON.stringify(row[odd])}`;
  return row.info === undefined || row.info === null || isObject(row.info) ? null : `info must be an object, got ${JSON.stringify(row.info)}`;
}

const TEXTS = ['answer', 'task', 'role'] as const;
const OPTIONAL: readonly string[] = [...TEXTS, 'info'];

const hasNulls = (row: Row): boolean => Object.entries(row).some(([name, value]) => value === null && OPTIONAL.includes(name));

function withoutNulls<R extends Row>(row: R): R {
  return Object.fromEntries(Object.entries(row).filter(([name, value]) => value !== null || !OPTIONAL.includes(name))) as R;
}

function idProblem(row: Row): string | null {
  if (typeof row !== 'object' || row === null) return `it must be an object with exampleId and prompt, got ${JSON.stringify(row) ?? String(row)}`;
  const { exampleId: id } = row;
  return typeof id === 'string' || Number.isFinite(id) ? null : `exampleId must be a string or a number, got ${JSON.stringify(id) ?? String(id)}`;
}
