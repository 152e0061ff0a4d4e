import { PrefixBreakError } from '../core/errors.ts';

/** Holds a lease to its promise: every prompt extends the last one token by token. The check is a memory comparison, the copy is of new tokens only. */
export class PromptGrowth {
  #ids = new Int32Array(0);
  #length = 0;

  /** Throws PrefixBreakError when `prompt` does not begin with the last one; a prompt that was `cut` on purpose begins anew. */
  extendTo(prompt: Int32Array, cut = false): void {
    if (cut) this.#length = 0;
    const common = Math.min(this.#length, prompt.length);
    if (prompt.length < this.#length || Buffer.compare(bytesOf(this.#ids, common), bytesOf(prompt, common)) !== 0) {
      let at = 0;
      while (at < common && this.#ids[at] === prompt[at]) at++;
      throw new PrefixBreakError(
        `The prompt does not extend the last one token by token: it has ${prompt[at] ?? 'its end'} where token ${at} was ${this.#ids[at]}`,
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

function bytesOf(ids: Int32Array, length: number): Buffer {
  return Buffer.from(ids.buffer, ids.byteOffset, length * Int32Array.BYTES_PER_ELEMENT);
}
