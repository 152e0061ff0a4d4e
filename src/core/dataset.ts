import { ConfigError } from './errors.ts';
import type { Message } from './message.ts';
import type { Random } from './random.ts';

/** One task: what the policy is asked and what the rubric needs to judge the reply. */
export interface Row {
  /** Unique within its dataset and stable across runs; groups and resume are keyed by it. */
  readonly exampleId: string | number;
  readonly prompt: readonly Message[];
  /** The reference answer, when it is one string. */
  readonly answer?: string;
  /** Which environment of a group the row belongs to, or whatever a rubric and a trainer tell kinds of rows apart by. */
  readonly task?: string;
  /** Everything else the rubric needs; written to the results as it is, so plain JSON. */
  readonly info?: Readonly<Record<string, unknown>>;
}

/** An immutable, indexable sequence of rows. */
export class Dataset<R extends Row = Row> implements Iterable<R> {
  readonly name: string;
  readonly #rows: readonly R[];

  constructor(name: string, rows: readonly R[]) {
    this.name = name;
    this.#rows = rows;
  }

  get length(): number {
    return this.#rows.length;
  }

  /** Row at `index`, 0 to length - 1. Throws ConfigError outside that range: rows are never repeated silently. */
  at(index: number): R {
    const row = this.#rows[index];
    if (row === undefined) throw new ConfigError(`${this.name} has no row ${index}; its rows are 0 to ${this.length - 1}`);
    return row;
  }

  [Symbol.iterator](): IterableIterator<R> {
    return this.#rows[Symbol.iterator]() as IterableIterator<R>;
  }

  /** The first `n` rows, or all of them if there are fewer. Throws ConfigError unless n is an integer from 0 up. */
  take(n: number): Dataset<R> {
    if (!(Number.isInteger(n) && n >= 0)) throw new ConfigError(`The number of rows must be an integer of at least 0, got ${n}`);
    return new Dataset(this.name, this.#rows.slice(0, n));
  }

  /** The same rows in the order `random` gives. */
  shuffle(random: Random): Dataset<R> {
    return new Dataset(this.name, random.shuffle(this.#rows));
  }
}
