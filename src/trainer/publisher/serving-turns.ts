/** Orders the work that changes what the replicas serve: a publish runs alone, replicas catch up side by side. */
import { CancelledError } from '../../core/errors.ts';

export class ServingTurns {
  #last: Promise<void> = Promise.resolve();
  readonly #together = new Set<Promise<unknown>>();
  #interrupted = new AbortController();

  /** Runs after all earlier calls and before all later ones. `interrupts` cancels the calls that run `together`, so that a publish does not wait for a slow replica. */
  async alone<T>(call: () => Promise<T>, { interrupts }: { readonly interrupts: boolean }): Promise<T> {
    const [before, done] = [this.#last, Promise.withResolvers<void>()];
    this.#last = done.promise;
    if (interrupts) {
      this.#interrupted.abort(new CancelledError('Stopped because a version is published'));
      this.#interrupted = new AbortController();
    }
    try {
      await before;
      await Promise.allSettled(this.#together);
      return await call();
    } finally {
      done.resolve();
    }
  }

  /** Runs beside other calls of its kind. Resolves with null if a publish cancelled it; `call` must end soon after its signal aborts. */
  async together<T>(call: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T | null> {
    for (let before = null; before !== this.#last;) await (before = this.#last);
    const { signal: interrupted } = this.#interrupted;
    const running = call(AbortSignal.any([signal, interrupted]));
    this.#together.add(running);
    try {
      return await running;
    } catch (error) {
      if (interrupted.aborted && !signal.aborted) return null;
      throw error;
    } finally {
      this.#together.delete(running);
    }
  }
}
