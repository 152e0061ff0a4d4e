/**
 * Finds stop strings in text that arrives piece by piece. The one that ends first wins; if several end together, the one listed first
 * (as in vLLM's v1/engine/detokenizer.py, check_stop_strings).
 */
export interface StopMatch {
  readonly string: string;
  /** UTF-16 offset of its end in the whole text. */
  readonly end: number;
}

export class StopStrings {
  readonly #strings: readonly string[];
  /** Number of UTF-16 units before a piece in which a match may begin. */
  readonly #reach: number;
  /** The last `#reach` units. */
  #tail = '';
  #length = 0;

  constructor(strings: readonly string[]) {
    this.#strings = strings;
    this.#reach = Math.max(0, ...strings.map((each) => each.length - 1));
  }

  /** The match that ends within this piece; null if `counts` is false. */
  push(piece: string, counts: boolean): StopMatch | null {
    if (this.#strings.length === 0 || piece === '') return null;
    const text = this.#tail + piece;
    const match = counts ? this.#search(text, this.#tail.length) : null;
    this.#length += piece.length;
    const start = this.#length - text.length;
    this.#tail = this.#reach === 0 ? '' : text.slice(-this.#reach);
    return match === null ? null : { string: match.string, end: start + match.end };
  }

  /** Number of UTF-16 units at the end of the text that may be the start of a stop string. */
  get pending(): number {
    for (let n = this.#tail.length; n > 0; n--) {
      const end = this.#tail.slice(-n);
      if (this.#strings.some((each) => each.length > n && each.startsWith(end))) return n;
    }
    return 0;
  }

  #search(text: string, old: number): StopMatch | null {
    let best: StopMatch | null = null;
    for (const string of this.#strings) {
      const at = text.indexOf(string, Math.max(0, old + 1 - string.length));
      if (at >= 0 && (best === null || at + string.length < best.end)) best = { string, end: at + string.length };
    }
    return best;
  }
}
