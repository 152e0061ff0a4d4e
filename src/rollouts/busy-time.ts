/** The time during which at least one of several overlapping works goes on. */
export class BusyTime {
  #spentMs = 0;
  #works = 0;
  #sinceMs = 0;

  /** Until now, in milliseconds. */
  get ms(): number {
    return this.#spentMs + (this.#works === 0 ? 0 : performance.now() - this.#sinceMs);
  }

  async during<T>(work: Promise<T>): Promise<T> {
    if (this.#works++ === 0) this.#sinceMs = performance.now();
    try {
      return await work;
    } finally {
      if (--this.#works === 0) this.#spentMs += performance.now() - this.#sinceMs;
    }
  }
}
