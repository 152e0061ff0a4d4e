/** The text of passages by row, and those in memory. */
export interface StoredPassage {
  readonly id: string;
  readonly contents: string;
}

export interface PassageStore {
  /** Throws RetrievalError if the passage cannot be read. */
  read(row: number): StoredPassage;
  close(): void;
}

export class PassageList implements PassageStore {
  readonly #passages: readonly StoredPassage[];

  constructor(passages: readonly StoredPassage[]) {
    this.#passages = passages;
  }

  read(row: number): StoredPassage {
    return this.#passages[row]!;
  }

  close(): void {}
}
