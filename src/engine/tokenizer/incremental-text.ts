/**
 * Text out of tokens that come one at a time. A character may be spread over several tokens, so the text of a token is known only once the bytes before the next
 * character are complete, or certainly broken: those become U+FFFD, as in the decoding of all tokens at once.
 */
import type { TokenBytes } from './tokenizer-types.ts';

export class IncrementalText {
  readonly #bytes: TokenBytes;
  readonly #skipSpecialTokens: boolean;
  // A byte order mark is a character like any other here.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #length = 0;

  constructor(bytes: TokenBytes, { skipSpecialTokens }: { readonly skipSpecialTokens: boolean }) {
    this.#bytes = bytes;
    this.#skipSpecialTokens = skipSpecialTokens;
  }

  /** UTF-16 units of all text that was given out. After a `push` it is where the text of the next token begins, or the character that the tokens so far began. */
  get length(): number {
    return this.#length;
  }

  /** The text that is certain now and was not before: often that of this token, empty in the midst of a character. Unknown ids have no text. */
  push(id: number): string {
    const { bytes, starts, special } = this.#bytes;
    if (this.#skipSpecialTokens && special[id] === 1) return '';
    const text = this.#decoder.decode(bytes.subarray(starts[id] ?? 0, starts[id + 1] ?? 0), { stream: true });
    this.#length += text.length;
    return text;
  }

  /** What is left: U+FFFD for a character that never ended. The next `push` begins anew. */
  finish(): string {
    const text = this.#decoder.decode();
    this.#length += text.length;
    return text;
  }
}
