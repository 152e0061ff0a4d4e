/**
 * The variables of a run. Lists with one entry per question are narrowed to the questions of a branch, and replies go back to the places of those questions, so that
 * no question is ever paired with the value of another.
 */
import { PipelineError } from './pipeline-error.ts';

/** The questions of a branch, by number from 0 up; null for all. */
export type Items = readonly number[] | null;

export class VariablePool {
  readonly #values = new Map<string, unknown>();
  readonly #histories = new Map<string, unknown[]>();
  readonly #failed = new Set<number>();
  #itemCount: number | null = null;

  /** `remembered`: variables whose earlier values are kept. */
  constructor(remembered: ReadonlySet<string>) {
    for (const name of remembered) this.#histories.set(name, []);
  }

  /** The number of questions; null before anything has depended on it. */
  get itemCount(): number | null {
    return this.#itemCount;
  }

  /** The questions that failed. */
  get failed(): ReadonlySet<number> {
    return this.#failed;
  }

  /** Values by name, each list with all questions. */
  values(): Record<string, unknown> {
    return Object.fromEntries(this.#values);
  }

  /** The questions that have not failed; null for all if none has. */
  active(items: Items): Items {
    if (this.#failed.size === 0) return items;
    return (items ?? Array.from({ length: this.#itemCount! }, (_, i) => i)).filter((item) => !this.#failed.has(item));
  }

  /** Sets the number of questions. Throws PipelineError if it contradicts that of questions that failed. */
  count(items: number, where: string): void {
    if (this.#failed.size > 0 && items !== this.#itemCount) throw unequal(where, items, this.#itemCount!);
    this.#itemCount = items;
  }

  fail(item: number): void {
    this.#failed.add(item);
  }

  /** The value, narrowed to the questions; null if no step that ran has written it. */
  read(name: string, items: Items): unknown {
    return this.#narrowed(this.#values.get(name) ?? null, items);
  }

  /** The variable's values so far, oldest first, each narrowed to the questions. */
  history(name: string, items: Items): readonly unknown[] {
    return this.#histories.get(name)!.map((value) => this.#narrowed(value, items));
  }

  /** Writes a value for the questions; a list goes to their places, and other questions keep theirs. */
  write(name: string, value: unknown, items: Items): void {
    const whole = items !== null && Array.isArray(value) && value.length === items.length ? this.#scattered(name, value, items) : value;
    this.#values.set(name, whole);
    this.#histories.get(name)?.push(whole);
  }

  #narrowed(value: unknown, items: Items): unknown {
    if (items === null || !Array.isArray(value) || value.length !== this.#itemCount) return value;
    return items.map((item) => value[item] as unknown);
  }

  #scattered(name: string, value: readonly unknown[], items: readonly number[]): readonly unknown[] {
    const before = this.#values.get(name);
    const whole: unknown[] =
      Array.isArray(before) && before.length === this.#itemCount ? [...before] : Array.from({ length: this.#itemCount! }, () => null);
    items.forEach((item, i) => (whole[item] = value[i]));
    return whole;
  }
}

export function unequal(where: string, got: number, expected: number): PipelineError {
  return new PipelineError(`${where} gave a list of ${got} for ${expected} questions`, { failure: 'length' });
}
