import { CancelledError, VfError } from './errors.ts';

/**
 * One piece of work that several callers wait for. A caller that aborts stops waiting; the work itself is aborted only after the last caller
 * has left. All remaining callers get the same result or error.
 */
export class SharedFlight<T> {
  readonly #controller = new AbortController();
  readonly #result: Promise<T>;
  #waiting = 0;

  /** Runs `start` in the next microtask; its signal aborts when nobody waits any more. */
  constructor(start: (signal: AbortSignal) => Promise<T>) {
    this.#result = Promise.resolve().then(() => start(this.#controller.signal));
    // All callers may have left by the time it fails.
    this.#result.catch(() => {});
  }

  /** True once all callers have left; then nobody may join. */
  get isAbandoned(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Rejects as soon as the signal aborts: with its reason if that is a VfError, else with CancelledError. */
  wait(signal: AbortSignal): Promise<T> {
    this.#waiting += 1;
    return new Promise<T>((resolve, reject) => {
      const leave = () => {
        signal.removeEventListener('abort', abort);
        this.#waiting -= 1;
      };
      const abort = () => {
        leave();
        const error = abortError(signal);
        if (this.#waiting === 0) this.#controller.abort(error);
        reject(error);
      };
      if (signal.aborted) return abort();
      signal.addEventListener('abort', abort, { once: true });
      const settle = (finish: () => void) => {
        if (signal.aborted) return;
        leave();
        finish();
      };
      this.#result.then(
        (value) => settle(() => resolve(value)),
        (error: unknown) => settle(() => reject(error)),
      );
    });
  }
}

/** The error for a caller whose own signal aborted. */
export function abortError(signal: AbortSignal): VfError {
  return signal.reason instanceof VfError ? signal.reason : new CancelledError('Stopped before the other side answered', { cause: signal.reason });
}
