/** The place of each rollout's line in `tokens.jsonl` or `asked.jsonl`. */
import { NumberColumn } from './growing-columns.ts';
import { GrowingFile } from './growing-file.ts';
import { FieldFinder } from './top-level-fields.ts';

export class LineIndex {
  readonly #file: GrowingFile;
  readonly #finder = new FieldFinder(['rollout_id']);
  readonly #rows = new Map<string, number>();
  readonly #places = new NumberColumn();
  readonly #lengths = new NumberColumn();
  #count = 0;

  constructor(path: string) {
    this.#file = new GrowingFile(path);
  }

  /** The line of the rollout; of several the last one counts. Null if the file has none. */
  async line(rolloutId: string): Promise<string | null> {
    await this.#file.readOn({ reset: () => this.#reset(), line: (...line) => this.#add(...line) });
    const row = this.#rows.get(rolloutId);
    return row === undefined ? null : this.#file.text(this.#places.at(row), this.#lengths.at(row));
  }

  #reset(): void {
    this.#rows.clear();
    this.#count = 0;
  }

  #add(piece: Buffer, start: number, end: number, place: number): void {
    if (!this.#finder.find(piece, start, end)) return;
    const id = this.#finder.string(0);
    if (id === null) return;
    const row = this.#count++;
    this.#rows.set(id, row);
    this.#places.set(row, place);
    this.#lengths.set(row, end - start);
  }
}
