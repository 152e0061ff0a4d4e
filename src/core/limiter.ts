import { CancelledError, ConfigError } from './errors.ts';

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
    if (signal.aborted) throw cancelled(signal);
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

  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const start = () => {
        signal.removeEventListener('abort', abort);
        resolve();
      };
      const abort = () => {
        this.#waiting.delete(start);
        reject(cancelled(signal));
      };
      this.#waiting.add(start);
      signal.addEventListener('abort', abort, { once: true });
    });
  }
}

function cancelled(signal: AbortSignal): CancelledError {
  return new CancelledError('Stopped while waiting for a free slot', { cause: signal.reason });
}
