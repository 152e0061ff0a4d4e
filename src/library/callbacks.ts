/**
 * The callbacks of a library function. One may be async: the work goes on meanwhile, and waits for it at its end. A rejection, which would otherwise end the process, stops
 * the work and is its error, as what a callback throws is.
 */
import { untilAborted } from '../core/abort.ts';
import { CancelledError } from '../core/errors.ts';

const CALLBACK = /^on[A-Z]/;

export class Callbacks<O extends { readonly signal?: AbortSignal }> {
  /** The options with these callbacks, and with a signal that also aborts when one rejects. */
  readonly options: O & { readonly signal: AbortSignal };
  readonly #stop = new AbortController();
  readonly #pending = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | null = null;

  constructor(options: O) {
    const watched = Object.entries(options).map(([name, value]: [string, unknown]) => [
      name,
      CALLBACK.test(name) && typeof value === 'function' ? this.#watched(value as (...given: readonly unknown[]) => unknown) : value,
    ]);
    const { signal } = options;
    const ends = signal === undefined ? this.#stop.signal : AbortSignal.any([signal, this.#stop.signal]);
    this.options = { ...(Object.fromEntries(watched) as O), signal: ends };
  }

  /** Settles as the work does, once the callbacks have, or the signal has aborted; rejects with the error of the first callback that rejected. */
  async through<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } finally {
      await this.settled();
    }
  }

  /** Rejects with the error of the first callback that rejected. */
  async settled(): Promise<void> {
    // Callbacks that are awaited no longer reject.
    await untilAborted(Promise.all(this.#pending), this.options.signal).catch(() => {});
    if (this.#failure !== null) throw this.#failure.error;
  }

  #watched(callback: (...given: readonly unknown[]) => unknown): (...given: readonly unknown[]) => void {
    return (...given) => {
      const returned = callback(...given);
      if (!(returned instanceof Promise)) return;
      const settled = returned.then(
        () => void this.#pending.delete(settled),
        (error: unknown) => {
          this.#pending.delete(settled);
          this.#failure ??= { error };
          this.#stop.abort(new CancelledError('Stopped by a callback that rejected', { cause: error }));
        },
      );
      this.#pending.add(settled);
    };
  }
}
