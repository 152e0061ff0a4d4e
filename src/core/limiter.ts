import { cancelled, onAbort, throwIfAborted } from './abort.ts';
import { ConfigError } from './errors.ts';

const STOPPED = 'Stopped while waiting for a free slot';

/** Runs at most `concurrency` tasks at a time, first come, first served. One limiter per resource, owned by the run and shared. */
export class Limiter {
  readonly concurrency: number;
  #active = 0;
  readonly #waiting = new Set<() => void>();

  constructor(concurrency: number) {
    if (!(concurrency === Infinity || (Number.isInteger(concurrency) && concurrency >= 1)))
      throw new ConfigError(`The concurrency must be at least 1, got ${concurrency}`);
    this.concurrency = concurrency;
  }

  get active(): number {
    return this.#active;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Runs the task as soon as a slot is free. Rejects with CancelledError when the signal aborts first; a started task is its own master. */
  async run<T>(task: () => Promise<T>, signal: AbortSignal): Promise<T> {
    throwIfAborted(signal, STOPPED);
    if (this.#active >= this.concurrency) await this.#turn(signal);
    else this.#active += 1;
    try {
      return await task();
    } finally {
      this.#release();
    }
  }

  /** A finished task hands its slot to the longest waiting one, so `active` never dips in between and nobody can jump the queue. */
  #release(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#active -= 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    using _ = onAbort(signal, () => {
      this.#waiting.delete(resolve);
      reject(cancelled(signal, STOPPED));
    });
    await promise;
  }
}
