/** A found passage: its row in the corpus and its score. */
export interface Bm25Hit {
  readonly row: number;
  readonly score: number;
}

/** The best hits so far, by higher score, then by lower row. A binary heap with the worst hit at its root. */
export class TopHits {
  readonly capacity: number;
  readonly #rows: Int32Array;
  readonly #scores: Float32Array;
  #size = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#rows = new Int32Array(capacity);
    this.#scores = new Float32Array(capacity);
  }

  get size(): number {
    return this.#size;
  }

  /** A score below this cannot enter; -1 while there is room. */
  get floor(): number {
    return this.#size < this.capacity ? -1 : this.#scores[0]!;
  }

  has(row: number): boolean {
    for (let i = 0; i < this.#size; i++) if (this.#rows[i] === row) return true;
    return false;
  }

  offer(row: number, score: number): void {
    if (this.#size < this.capacity) this.#siftUp(row, score);
    else if (score > this.#scores[0]! || (score === this.#scores[0] && row < this.#rows[0]!)) this.#siftDown(row, score);
  }

  /** Best first. */
  toSorted(): Bm25Hit[] {
    const hits = Array.from({ length: this.#size }, (_, i) => ({ row: this.#rows[i]!, score: this.#scores[i]! }));
    return hits.toSorted((a, b) => b.score - a.score || a.row - b.row);
  }

  #isWorse(i: number, row: number, score: number): boolean {
    return this.#scores[i]! < score || (this.#scores[i] === score && this.#rows[i]! > row);
  }

  #siftUp(row: number, score: number): void {
    let i = this.#size++;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!this.#isBetter(parent, row, score)) break;
      this.#move(parent, i);
      i = parent;
    }
    this.#rows[i] = row;
    this.#scores[i] = score;
  }

  #isBetter(i: number, row: number, score: number): boolean {
    return this.#scores[i]! > score || (this.#scores[i] === score && this.#rows[i]! < row);
  }

  #siftDown(row: number, score: number): void {
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= this.#size) break;
      if (child + 1 < this.#size && this.#isWorse(child + 1, this.#rows[child]!, this.#scores[child]!)) child++;
      if (!this.#isWorse(child, row, score)) break;
      this.#move(child, i);
      i = child;
    }
    this.#rows[i] = row;
    this.#scores[i] = score;
  }

  #move(from: number, to: number): void {
    this.#rows[to] = this.#rows[from]!;
    this.#scores[to] = this.#scores[from]!;
  }
}
