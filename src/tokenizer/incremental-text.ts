/**
 * Text out of tokens that come one at a time. A character may be spread over several tokens: nothing is given out while the text so far ends within one, or with
 * bytes that form none. The next token that ends with a whole character brings all of it, broken bytes as U+FFFD, as in the decoding of all tokens at once; at the end of a
 * generation it is left out (as the DecodeStream of Hugging Face's tokenizers, which vLLM takes).
 */
import type { TokenBytes } from './tokenizer-types.ts';

export interface IncrementalTextOptions {
  readonly skipSpecialTokens: boolean;
  /** Tokens before the first. A character that they leave unfinished belongs to the text. @default none */
  readonly before?: Int32Array;
}

/** A character in UTF-8 has at most as many bytes after its first. */
const MOST_MISSING = 3;

export class IncrementalText {
  readonly #bytes: TokenBytes;
  readonly #skipSpecialTokens: boolean;
  // A byte order mark is a character like any other here.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #length = 0;
  /** Decoded and not given out. */
  #held = '';
  #endsBroken = false;
  /** Bytes until the last character is whole. */
  #missing = 0;

  constructor(bytes: TokenBytes, { skipSpecialTokens, before }: IncrementalTextOptions) {
    this.#bytes = bytes;
    this.#skipSpecialTokens = skipSpecialTokens;
    if (before !== undefined) this.#begin(this.#lastBytes(before));
  }

  /** UTF-16 units of all text that was given out. After a `push` it is where the text of the next token begins, or what the tokens so far began. */
  get length(): number {
    return this.#length;
  }

  /** The text that is certain now and was not before: often that of this token, empty in the midst of a character. Unknown ids have no text. */
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

  /** Takes the unfinished character at the end of `bytes`, if there is one. */
  #begin(bytes: Uint8Array): void {
    if (missingBytes(bytes, 0) > 0) this.#take(bytes.subarray(bytes.findLastIndex(isFirstOfSeveral)));
  }

  #bytesOf(id: number): Uint8Array {
    const { bytes, starts, special } = this.#bytes;
    return this.#skipSpecialTokens && special[id] === 1 ? NO_BYTES : bytes.subarray(starts[id] ?? 0, starts[id + 1] ?? 0);
  }

  /** As many as an unfinished character may have. */
  #lastBytes(ids: Int32Array): Uint8Array {
    const last: number[] = [];
    for (let i = ids.length - 1; i >= 0 && last.length < MOST_MISSING; i--) last.unshift(...this.#bytesOf(ids[i]!).slice(-MOST_MISSING));
    return Uint8Array.from(last.slice(-MOST_MISSING));
  }
}

const NO_BYTES = new Uint8Array(0);

const isFirstOfSeveral = (byte: number) => byte >= 0xc0;

/** Bytes that the last character lacks, if it is none that is broken; `missing` of them were lacking before. */
function missingBytes(bytes: Uint8Array, missing: number): number {
  let rest = missing;
  for (const byte of bytes) {
    if (isFirstOfSeveral(byte)) rest = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
    else rest = byte >= 0x80 ? Math.max(0, rest - 1) : 0;
  }
  return rest;
}
