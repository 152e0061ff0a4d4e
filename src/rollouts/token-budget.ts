/**
 * The tokens that the policy may write in a whole rollout, of which turns take parts while others are sampled. A turn that might not fit waits until another has ended and has given
 * back what it did not need, so that the budget is never exceeded and no turn is refused or cut for tokens that nobody used.
 */
export class TokenBudget {
  #left: number;
  /** Held by turns that are being sampled. */
  #held = 0;
  #waiting: (() => void)[] = [];

  /** @param tokens Infinity is no limit */
  constructor(tokens: number) {
    this.#left = tokens;
  }

  /** Everything was written. */
  get isSpent(): boolean {
    return this.#left <= 0;
  }

  /**
   * What a turn may write, which is 0 once the budget is spent; `give` ends it.
   * @param most tokens that it could write without a budget
   */
  async take(most: number): Promise<number> {
    if (this.#left === Infinity) return Infinity;
    while (this.#held > 0 && this.#left - this.#held < most) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const taken = Math.max(0, Math.min(most, this.#left - this.#held));
    this.#held += taken;
    return taken;
  }

  /** @param written of the tokens that it took */
  give(taken: number, written: number): void {
    this.#left -= written;
    if (taken !== Infinity) this.#held -= taken;
    for (const resume of this.#waiting.splice(0)) resume();
  }
}
