/** Measures the time during which at least one request of a run waited for a rate limit. */
export class WaitMeter {
  #waiting = 0;
  #sinceMs = 0;
  #totalMs = 0;

  /** Milliseconds so far, including a wait that goes on. */
  get totalMs(): number {
    return this.#totalMs + (this.#waiting > 0 ? performance.now() - this.#sinceMs : 0);
  }

  /** Number of requests that wait now. */
  get waiting(): number {
    return this.#waiting;
  }

  /** A request begins to wait; dispose the result when the wait ends, which also disposes `also`. */
  begin(also?: Disposable): Disposable {
    if (this.#waiting++ === 0) this.#sinceMs = performance.now();
    return {
      [Symbol.dispose]: () => {
        also?.[Symbol.dispose]();
        if (--this.#waiting === 0) this.#totalMs += performance.now() - this.#sinceMs;
      },
    };
  }
}
