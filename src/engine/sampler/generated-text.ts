/** The growing text of a generation: where each token begins, whether a stop string occurred, and which part can be streamed. */
import { IncrementalText } from '../../tokenizer/incremental-text.ts';
import type { TokenBytes } from '../../tokenizer/tokenizer-types.ts';
import { StopStrings } from '../../tokenizer/stop-strings.ts';

export interface GeneratedTextOptions {
  readonly bytes: TokenBytes;
  readonly skipSpecialTokens: boolean;
  /** If it ends within a character, that character is part of the text. @default none */
  readonly prompt?: Int32Array;
  readonly stop: { readonly strings: readonly string[]; readonly includeString: boolean; readonly minTokens: number };
  /** True if the caller will call `takeNew`. */
  readonly streams: boolean;
}

export class GeneratedText {
  readonly #incremental: IncrementalText;
  readonly #stops: StopStrings;
  readonly #stop: GeneratedTextOptions['stop'];
  readonly #streams: boolean;
  readonly #offsets: number[] = [];
  #text = '';
  /** The end of the text that `takeNew` has not returned yet. */
  #unsent = '';
  #isWhole = false;

  constructor({ bytes, skipSpecialTokens, prompt, stop, streams }: GeneratedTextOptions) {
    this.#incremental = new IncrementalText(bytes, { skipSpecialTokens, ...(prompt === undefined ? {} : { before: prompt }) });
    this.#stops = new StopStrings(stop.strings);
    this.#stop = stop;
    this.#streams = streams;
  }

  /** Adds a token; a hidden one adds no text. Cuts the text at a completed stop string and returns that string. */
  push(id: number, isHidden: boolean): string | null {
    const start = this.#incremental.length;
    this.#offsets.push(start);
    if (isHidden) return null;
    const piece = this.#incremental.push(id);
    this.#append(piece);
    // vLLM looks for stop strings only in the text of tokens beyond the first `minTokens`.
    const match = this.#stops.push(piece, this.#offsets.length > this.#stop.minTokens);
    if (match === null) return null;
    const cut = this.#stop.includeString ? match.end : match.end - match.string.length;
    this.#cut(this.#text.length - cut);
    this.#isWhole = true;
    return match.string;
  }

  /** Ends the text: the start of a possible stop string becomes text, an incomplete character is dropped. */
  finish(): void {
    this.#isWhole = true;
  }

  /** Returns new text, except what a stop string may still cut off. */
  takeNew(): string {
    const held = this.#isWhole || this.#stop.includeString ? 0 : this.#stops.pending;
    const end = this.#unsent.length - held;
    const text = this.#unsent.slice(0, end);
    this.#unsent = this.#unsent.slice(end);
    return text;
  }

  get text(): string {
    return this.#text;
  }

  /** UTF-16 offset in the uncut text where each token's text begins. */
  get offsets(): Int32Array {
    return Int32Array.from(this.#offsets);
  }

  #append(piece: string): void {
    this.#text += piece;
    if (this.#streams) this.#unsent += piece;
  }

  #cut(count: number): void {
    if (count === 0) return;
    this.#text = this.#text.slice(0, this.#text.length - count);
    if (this.#streams) this.#unsent = this.#unsent.slice(0, this.#unsent.length - count);
  }
}
