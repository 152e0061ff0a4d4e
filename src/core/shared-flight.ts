import { abortError, untilAborted } from './abort.ts';

/**
 * One piece of work that several callers wait for. A caller that aborts stops waiting; the work itself is aborted only when the last caller has left.
 * All remaining callers get the same result or error.
 */
export class SharedFlight<T> {
  readonly #controller = new AbortController();
  readonly #result: Promise<T>;
  readonly #waiting = new Set<symbol>();

  /** Runs `start` in the next microtask; its signal aborts when the last caller has left. */
  constructor(start: (signal: AbortSignal) => Promise<T>) {
    this.#result = Promise.resolve().then(() => start(this.#controller.signal));
    // All callers may have left by the time it fails.
    this.#result.catch(() => {});
  }

  /** True once all callers have left; `wait` must not be called then. */
  get isAbandoned(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Rejects as soon as the signal aborts: with its reason if that is a VfError, else with CancelledError. */
  wait(signal: AbortSignal): Promise<T> {
    const caller = Symbol();
    this.#waiting.add(caller);
    const leave = () => this.#waiting.delete(caller);
    return untilAborted(this.#result.finally(leave), signal, () => {
      leave();
      const error = abortError(signal);
      if (this.#waiting.size === 0) this.#controller.abort(error);
      return error;
    });
  }
}
