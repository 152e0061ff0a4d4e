/** Takes work up a little at a time, so that a burst of requests or a large batch does not keep others, such as /health, from being answered. */

/** In one round of the event loop. Reading a request or starting an episode takes .1 to .2 ms. */
const TURNS_A_ROUND = 8;

export class PacedTurns {
  readonly #waiting: (() => void)[] = [];

  /** Resolves when it is the caller's turn: first come, first served. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#waiting.length === 1) setImmediate(() => this.#round());
    });
  }

  #round(): void {
    for (const begin of this.#waiting.splice(0, TURNS_A_ROUND)) begin();
    if (this.#waiting.length > 0) setImmediate(() => this.#round());
  }
}
