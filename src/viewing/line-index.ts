/** The places of a file's lines by their `rollout_id`; if a rollout has two lines, the later one counts. */
import { openInside } from './files-inside.ts';
import { NumberColumn } from './growing-columns.ts';
import { visitLines } from './line-reader.ts';
import { ReadProgress } from './read-progress.ts';
import type { IndexedFile } from './rollout-index.ts';
import { FieldFinder } from './top-level-fields.ts';

export class LineIndex {
  readonly #file: IndexedFile;
  readonly #finder = new FieldFinder(['rollout_id']);
  #rows = new Map<string, number>();
  #starts = new NumberColumn();
  #lengths = new NumberColumn();
  #count = 0;
  readonly #progress = new ReadProgress();
  #refreshing: Promise<void> | null = null;

  constructor(file: IndexedFile) {
    this.#file = file;
  }

  /** The line of a rollout; null if the file has none. */
  async line(rolloutId: string): Promise<string | null> {
    await (this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = null)));
    const row = this.#rows.get(rolloutId);
    const { directory, name, isPacked } = this.#file;
    await using file = row === undefined ? null : await openInside(directory, name);
    if (row === undefined || file === null) return null;
    const start = this.#starts.at(row);
    if (isPacked) {
      let found: string | null = null;
      const line = (bytes: Buffer, from: number, end: number, place: number) => {
        if (place === start) found = bytes.toString('utf8', from, end);
      };
      await visitLines(file, { line }, { name, isPacked });
      return found;
    }
    const bytes = Buffer.allocUnsafe(this.#lengths.at(row));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, start);
    return bytes.toString('utf8', 0, bytesRead);
  }

  async #refresh(): Promise<void> {
    const { directory, name, isPacked } = this.#file;
    await using file = await openInside(directory, name);
    if (file === null) return;
    const found = await this.#progress.compare(file, { isPacked });
    if (found === 'same') return;
    if (found === 'other') this.#reset();
    const line = (bytes: Buffer, start: number, end: number, place: number) => {
      this.#finder.find(bytes, start, end, { mayStopEarly: true });
      const id = this.#finder.string(0);
      if (id === null) return;
      const row = this.#count++;
      this.#rows.set(id, row);
      this.#starts.set(row, place);
      this.#lengths.set(row, end - start);
    };
    await this.#progress.reached(file, await visitLines(file, { line }, { name, from: this.#progress.readTo, isPacked }), { isPacked });
  }

  #reset(): void {
    this.#rows = new Map();
    this.#starts = new NumberColumn();
    this.#lengths = new NumberColumn();
    this.#count = 0;
  }
}
