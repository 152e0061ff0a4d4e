/** Finds passages with the id of an earlier one. Ids that are row numbers, as in wiki-18, take no memory. */

/** Most other ids that are remembered, about 100 MB; repetitions of later ones are not found. */
const MOST_IDS = 2 ** 20;

export class RepeatedIds {
  readonly #first = new Map<string, number>();
  readonly #strangers = new Set<number>();
  #count = 0;
  #example = '';

  /** @param id of a row, which is its number without one */
  add(id: string | null, row: number): void {
    const own = String(row);
    const given = id ?? own;
    const isRepeated = this.#first.has(given) || (given !== own && this.#isNumberOf(given, row));
    if (isRepeated) {
      this.#count += 1;
      this.#example ||= given;
    }
    if (given === own || this.#strangers.size >= MOST_IDS) return;
    this.#strangers.add(row);
    if (!this.#first.has(given)) this.#first.set(given, row);
  }

  /** A line about them; null without any. */
  get notice(): string | null {
    if (this.#count === 0) return null;
    const subject = this.#count === 1 ? '1 passage has the id' : `${this.#count} passages have the id`;
    return `${subject} of an earlier one, such as ${JSON.stringify(this.#example)}. They are searched as passages of their own, but their ids do not tell them apart.`;
  }

  /** Tells whether an earlier row has this id as its number. */
  #isNumberOf(id: string, row: number): boolean {
    const number = /^\d{1,15}$/.test(id) ? Number(id) : row;
    return number < row && String(number) === id && !this.#strangers.has(number);
  }
}
