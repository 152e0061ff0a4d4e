import { cancelled, onAbort, throwIfAborted } from './abort.ts';
import { ConfigError } from './errors.ts';

/** One of those whose tasks take turns. */
export interface Client {
  /** When a task of it began last, or when it came: counted, not a time. */
  lastTurn: number;
}

/** The place of a task among others: clients take turns, and of the tasks of one client that with the lowest `dueMs` is first. */
export interface Turn {
  readonly client: Client;
  readonly dueMs: number;
}

let turns = 0;

export function newClient(): Client {
  return { lastTurn: ++turns };
}

const STOPPED = 'Stopped while waiting for a free slot';

/**
 * Runs at most `concurrency` tasks at a time, first come, first served, except for tasks that go ahead or have a turn. The constructor throws ConfigError unless
 * `concurrency` is an integer of at least 1 or Infinity.
 * @example
 * const limiter = new Limiter(8);
 * await Promise.all(questions.map((question) => limiter.run(() => answer(question), signal)));
 */
export class Limiter {
  readonly concurrency: number;
  #active = 0;
  readonly #waiting = new Map<() => void, Turn | null>();
  readonly #ahead = new Map<() => void, null>();

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
  async run<T>(
    task: () => Promise<T>,
    signal: AbortSignal,
    { goesAhead = false, turn = null }: { readonly goesAhead?: boolean; readonly turn?: Turn | null } = {},
  ): Promise<T> {
    throwIfAborted(signal, STOPPED);
    if (this.#active >= this.concurrency) await (goesAhead ? this.#wait(signal, this.#ahead, null) : this.#wait(signal, this.#waiting, turn));
    else this.#active += 1;
    if (turn !== null) turn.client.lastTurn = ++turns;
    try {
      return await task();
    } finally {
      this.#release();
    }
  }

  /** Passes the slot to the next task, without freeing it in between, so that no new task can overtake. */
  #release(): void {
    const waiting = this.#ahead.size > 0 ? this.#ahead : this.#waiting;
    const next = nextOf(waiting);
    if (next === undefined) {
      this.#active -= 1;
      return;
    }
    waiting.delete(next);
    next();
  }

  async #wait<T extends Turn | null>(signal: AbortSignal, waiting: Map<() => void, T>, turn: T): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    waiting.set(resolve, turn);
    using _ = onAbort(signal, () => {
      waiting.delete(resolve);
      reject(cancelled(signal, STOPPED));
    });
    await promise;
  }
}

/** The task that has waited longest if it has no turn, else the one whose turn it is. */
function nextOf(waiting: ReadonlyMap<() => void, Turn | null>): (() => void) | undefined {
  let next: readonly [() => void, Turn] | null = null;
  for (const [begin, turn] of waiting) {
    if (turn === null) return begin;
    if (next === null || isBefore(turn, next[1])) next = [begin, turn];
  }
  return next?.[0];
}

function isBefore(a: Turn, b: Turn): boolean {
  return a.client === b.client ? a.dueMs < b.dueMs : a.client.lastTurn < b.client.lastTurn;
}
