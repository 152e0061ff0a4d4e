import { termOf } from './english-analyzer.ts';

/** Limits of the memo of analysed words: number of words, and length of a word in UTF-16 units. */
const MEMO_WORDS = 1 << 18;
const MEMO_UNITS = 64;
const NO_TERM = -1;

/** Term ids, numbered in order of first occurrence. Grows until it is frozen. */
export class Vocabulary {
  readonly terms: string[] = [];
  readonly #ids = new Map<string, number>();
  readonly #memo = new Map<string, number>();
  #isFrozen = false;

  /** A frozen vocabulary of these terms; their ids are their indexes. */
  static of(terms: readonly string[]): Vocabulary {
    const vocabulary = new Vocabulary();
    for (const term of terms) vocabulary.#append(term);
    vocabulary.freeze();
    return vocabulary;
  }

  /** From now on new terms get no id. */
  freeze(): void {
    this.#isFrozen = true;
  }

  /** Id of the word's term; -1 if it is a stop word or not a term of a frozen vocabulary. */
  idOf(word: string): number {
    const known = this.#memo.get(word);
    if (known !== undefined) return known;
    // Copied, because a stored slice would keep the whole passage in memory.
    const copy = JSON.parse(JSON.stringify(word)) as string;
    const term = termOf(copy);
    const id = term === null ? NO_TERM : (this.#ids.get(term) ?? (this.#isFrozen ? NO_TERM : this.#append(term)));
    if (this.#memo.size < MEMO_WORDS && copy.length <= MEMO_UNITS) this.#memo.set(copy, id);
    return id;
  }

  #append(term: string): number {
    const id = this.terms.push(term) - 1;
    this.#ids.set(term, id);
    return id;
  }
}
