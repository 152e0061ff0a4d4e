import { PrefixBreakError } from '../core/errors.ts';

/** Checks that every prompt of a lease extends the previous one token by token. Copies only the new tokens. */
export class PromptGrowth {
  #ids = new Int32Array(0);
  #length = 0;

  /** Throws PrefixBreakError if `prompt` does not begin with the previous one. `cut` skips the check: the prompt was truncated on purpose. */
  extendTo(prompt: Int32Array, cut = false): void {
    if (cut) this.#length = 0;
    const common = Math.min(this.#length, prompt.length);
    let at = 0;
    while (at < common && this.#ids[at] === prompt[at]) at++;
    if (at < this.#length) {
      throw new PrefixBreakError(
        `The prompt does not extend the previous one token by token: token ${at} was ${this.#ids[at]} and is now ${prompt[at] ?? 'missing'}`,
      );
    }
    if (prompt.length > this.#ids.length) {
      const grown = new Int32Array(Math.max(prompt.length, this.#ids.length * 2));
      grown.set(this.#ids.subarray(0, this.#length));
      this.#ids = grown;
    }
    this.#ids.set(prompt.subarray(this.#length), this.#length);
    this.#length = prompt.length;
  }
}
