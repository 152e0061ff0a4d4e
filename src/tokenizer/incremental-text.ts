/**
 * Decodes tokens that arrive one at a time. A character may be split over several tokens: no text is returned while the text so far ends inside a
 * character or with invalid bytes. The next token that ends with a complete character returns all of it, invalid bytes as U+FFFD, as if all tokens were
 * decoded at once. At the end of a generation, an incomplete character is left out, as by the DecodeStream of Hugging Face's tokenizers, which vLLM uses.
 */
import type { TokenBytes } from './tokenizer-types.ts';

export interface IncrementalTextOptions {
  readonly skipSpecialTokens: boolean;
  /** Tokens before the first. A character that they leave incomplete becomes part of the text. @default none */
  readonly before?: Int32Array;
}

/** Most bytes that a UTF-8 character has after its first. */
const MOST_MISSING = 3;

export class IncrementalText {
  readonly #bytes: TokenBytes;
  readonly #skipSpecialTokens: boolean;
  // A byte order mark is kept like any other character.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #length = 0;
  /** Decoded but not returned yet. */
  #held = '';
  #endsBroken = false;
  /** Bytes that the last character still lacks. */
  #missing = 0;

  constructor(bytes: TokenBytes, { skipSpecialTokens, before }: IncrementalTextOptions) {
    this.#bytes = bytes;
    this.#skipSpecialTokens = skipSpecialTokens;
    if (before !== undefined) this.#begin(this.#lastBytes(before));
  }

  /** UTF-16 units of all returned text. After a `push`, this is where the text of the next token, or an incomplete character, begins. */
  get length(): number {
    return this.#length;
  }

  /** Returns the text that this token completes: often its own, empty inside a character. Unknown ids have no text. */
  push(id: number): string {
    this.#take(this.#bytesOf(id));
    if (this.#endsBroken || this.#missing > 0) return '';
    const text = this.#held;
    this.#held = '';
    this.#length += text.length;
    return text;
  }

  #take(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#missing = missingBytes(bytes, this.#missing);
    const text = this.#decoder.decode(bytes, { stream: true });
    if (text === '') return;
    this.#held += text;
    this.#endsBroken = text.endsWith('\uFFFD');
  }

  /** Starts with the incomplete character at the end of `bytes`, if there is one. */
  #begin(bytes: Uint8Array): void {
    if (missingBytes(bytes, 0) > 0) this.#take(bytes.subarray(bytes.findLastIndex(isFirstOfSeveral)));
  }

  #bytesOf(id: number): Uint8Array {
    const { bytes, starts, special } = this.#bytes;
    // A copy, because browsers decode no shared memory.
    return this.#skipSpecialTokens && special[id] === 1 ? NO_BYTES : bytes.slice(starts[id] ?? 0, starts[id + 1] ?? 0);
  }

  /** The last bytes of `ids`, as many as an incomplete character may have. */
  #lastBytes(ids: Int32Array): Uint8Array {
    const last: number[] = [];
    for (let i = ids.length - 1; i >= 0 && last.length < MOST_MISSING; i--) last.unshift(...this.#bytesOf(ids[i]!).slice(-MOST_MISSING));
    return Uint8Array.from(last.slice(-MOST_MISSING));
  }
}

const NO_BYTES = new Uint8Array(0);

const isFirstOfSeveral = (byte: number) => byte >= 0xc0;

/** Bytes that the last character lacks after `bytes`, 0 if it is complete or invalid. `missing` is the number that it lacked before. */
function missingBytes(bytes: Uint8Array, missing: number): number {
  let rest = missing;
  for (const byte of bytes) {
    if (isFirstOfSeveral(byte)) rest = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
    else rest = byte >= 0x80 ? Math.max(0, rest - 1) : 0;
  }
  return rest;
}
