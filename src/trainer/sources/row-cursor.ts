/**
 * Knows which rows a stream of groups begins next, in the seeded order of `placesOfStep`, and which it has begun without training on them. A place in that order has
 * a number, from 0; a row has one in every pass over the data.
 */
import type { Dataset, Row } from '../../core/dataset.ts';
import { placesOfStep, stepsPerPass } from './rows-of-step.ts';

export interface Place {
  readonly number: number;
  readonly row: Row;
}

/** The contents of a checkpoint. */
export interface CursorState {
  readonly next: number;
  /** Places before `next` that no finished step has used, ascending. */
  readonly open: readonly number[];
}

/** `claim` searches this many passes over the data for the row of a group that is on file. */
const PASSES = 2;

export class RowCursor {
  readonly #train: Dataset;
  readonly #examplesPerStep: number;
  readonly #seed: number;
  readonly #steps: number;
  #next = 0;
  /** Places that were begun before and must begin again; ascending. */
  #waiting: number[] = [];
  /** The step that a begun place went to; null while its group is played. */
  readonly #begun = new Map<number, number | null>();
  /** Rows of the step of the data that was read last: shuffling a large data set takes time. */
  #read: { readonly step: number; readonly places: readonly number[] } | null = null;

  /** Throws ConfigError if the data have fewer rows than a step needs. */
  constructor(train: Dataset, { examplesPerStep, seed }: { readonly examplesPerStep: number; readonly seed: number }) {
    this.#train = train;
    this.#examplesPerStep = examplesPerStep;
    this.#seed = seed;
    this.#steps = stepsPerPass(train, examplesPerStep);
  }

  /** Takes the next row. */
  begin(): Place {
    const number = this.#waiting.shift() ?? this.#next++;
    this.#begun.set(number, null);
    return { number, row: this.#row(number) };
  }

  /** The group of this place goes to `step`. */
  assign(number: number, step: number): void {
    this.#begun.set(number, step);
  }

  /** Nothing will be trained on this place. */
  forget(number: number): void {
    this.#begun.delete(number);
  }

  /** A group of this row is on file for `step`: the first place that has the row is used. Ignores a row that the data do not have. */
  claim(groupId: string, step: number): void {
    const has = (number: number) => String(this.#row(number).exampleId) === groupId;
    const waiting = this.#waiting.findIndex(has);
    if (waiting !== -1) return void this.#begun.set(this.#waiting.splice(waiting, 1)[0]!, step);
    const end = this.#next + PASSES * this.#steps * this.#examplesPerStep;
    let number = this.#next;
    while (number < end && !has(number)) number++;
    if (number === end) return;
    for (let skipped = this.#next; skipped < number; skipped++) this.#waiting.push(skipped);
    this.#next = number + 1;
    this.#begun.set(number, step);
  }

  /** The step is trained on. */
  finish(step: number): void {
    for (const [number, own] of this.#begun) if (own !== null && own <= step) this.#begun.delete(number);
  }

  get state(): CursorState {
    return { next: this.#next, open: [...this.#begun.keys(), ...this.#waiting].toSorted((a, b) => a - b) };
  }

  load({ next, open }: CursorState): void {
    this.#next = next;
    this.#waiting = [...open];
    this.#begun.clear();
  }

  #row(number: number): Row {
    const step = Math.floor(number / this.#examplesPerStep) + 1;
    if (this.#read?.step !== step) {
      const plan = { rows: this.#train.length, examplesPerStep: this.#examplesPerStep, seed: this.#seed, step };
      this.#read = { step, places: placesOfStep(this.#steps, plan) };
    }
    return this.#train.at(this.#read.places[number % this.#examplesPerStep]!);
  }
}
