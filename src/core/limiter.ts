import { cancelled, onAbort, throwIfAborted } from './abort.ts';
import { ConfigError } from './errors.ts';

const STOPPED = 'Stopped while waiting for a free slot';

/**
 * Runs at most `concurrency` tasks at a time, first come, first served, except for tasks that go ahead. The constructor throws ConfigError unless
 * `concurrency` is an integer of at least 1 or Infinity.
 * @example
 * const limiter = new Limiter(8);
 * await Promise.all(questions.map((question) => limiter.run(() => answer(question), signal)));
 */
export class Limiter {
  readonly concurrency: number;
  #active = 0;
  readonly #waiting = new Set<() => void>();
  readonly #ahead = new Set<() => void>();

  constructor(concurrency: number) {
    if (!(concurrency === Infinity || (Number.isInteger(concurrency) && concurrency >= 1)))
      throw new ConfigError(`The concurrency must be at least 1, got ${concurrency}`);
    this.concurrency = concurrency;
  }

  /** Number of running tasks. */
  get active(): number {
    return this.#active;
  }

  /** Number of waiting tasks. */
  get waiting(): number {
    return this.#waiting.size + this.#ahead.size;
  }

  /**
   * Runs the task when a slot is free. Rejects with CancelledError if the signal aborts first; once started, a task handles aborts itself.
   * A task with `goesAhead` runs before all waiting tasks without it. @default false
   */
  async run<T>(task: () => Promise<T>, signal: AbortSignal, { goesAhead = false } = {}): Promise<T> {
    throwIfAborted(signal, STOPPED);
    if (this.#active >= this.concurrency) await this.#turn(signal, goesAhead ? this.#ahead : this.#waiting);
    else this.#active += 1;
    try {
      return await task();
    } finally {
      this.#release();
    }
  }

  /** Passes the slot to the task that has waited longest, without freeing it in between, so that no new task can overtake. */
  #release(): void {
    const waiting = this.#ahead.size > 0 ? this.#ahead : this.#waiting;
    const [next] = waiting;
    if (next === undefined) {
      this.#active -= 1;
      return;
    }
    waiting.delete(next);
    next();
  }

  async #turn(signal: AbortSignal, waiting: Set<() => void>): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    waiting.add(resolve);
    using _ = onAbort(signal, () => {
      waiting.delete(resolve);
      reject(cancelled(signal, STOPPED));
    });
    await promise;
  }
}
