/** Keeps the table of a file of rollouts up to date. A file that grew is read on from its earlier end; one that was replaced or cut is read from its beginning. */
import type { FileHandle } from 'node:fs/promises';
import { openInside } from './files-inside.ts';
import { visitLines } from './line-reader.ts';
import { ReadProgress } from './read-progress.ts';
import { RolloutTable } from './rollout-table.ts';
import { ViewRequestError } from './view-problem.ts';

export interface IndexedFile {
  readonly directory: string;
  /** Relative to the directory. */
  readonly name: string;
  readonly isPacked: boolean;
}

export class RolloutIndex {
  readonly file: IndexedFile;
  #table = new RolloutTable();
  readonly #progress = new ReadProgress();
  #refreshing: Promise<RolloutTable> | null = null;

  constructor(file: IndexedFile) {
    this.file = file;
  }

  /** As it was after the last refresh. */
  get current(): RolloutTable {
    return this.#table;
  }

  /** Reads new lines. Returns another table if the file was begun again. A missing file has no rollouts. */
  refresh(): Promise<RolloutTable> {
    this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  /** Opens the file of the table. */
  async open(): Promise<FileHandle> {
    const { directory, name } = this.file;
    const file = await openInside(directory, name);
    if (file === null) throw new ViewRequestError(404, `${name} is gone. Load the page again.`);
    return file;
  }

  /** The lines of rows, which may come in any order; `use` gets the bytes for as long as it runs. */
  async lines(
    table: RolloutTable,
    rows: readonly number[],
    use: (row: number, line: Buffer) => void,
    options: { readonly mostBytes?: number } = {},
  ): Promise<void> {
    if (rows.length === 0) return;
    const { mostBytes = Infinity } = options;
    await using file = await this.open();
    if (this.file.isPacked) {
      const byStart = new Map(rows.map((row) => [table.place(row).start, row]));
      const line = (bytes: Buffer, start: number, end: number, place: number) => {
        const row = byStart.get(place);
        if (row !== undefined) use(row, bytes.subarray(start, Math.min(end, start + mostBytes)));
      };
      await visitLines(file, { line }, { isPacked: true });
      return;
    }
    for (const row of rows) {
      const { start, length } = table.place(row);
      const bytes = Buffer.allocUnsafe(Math.min(length, mostBytes));
      const { bytesRead } = await file.read(bytes, 0, bytes.length, start);
      use(row, bytes.subarray(0, bytesRead));
    }
  }

  async #refresh(): Promise<RolloutTable> {
    const { directory, name, isPacked } = this.file;
    await using file = await openInside(directory, name);
    if (file === null) {
      if (this.#progress.hasBegun) this.#reset();
      return this.#table;
    }
    const found = await this.#progress.compare(file, { isPacked });
    if (found === 'same') return this.#table;
    if (found === 'other') this.#table = new RolloutTable();
    const table = this.#table;
    const visitor = {
      line: (bytes: Buffer, start: number, end: number, place: number) => table.add(bytes, start, end, place),
      tooLong: (place: number) => table.tooLong(place),
    };
    await this.#progress.reached(file, await visitLines(file, visitor, { from: this.#progress.readTo, isPacked }), { isPacked });
    return table;
  }

  #reset(): void {
    this.#progress.reset();
    this.#table = new RolloutTable();
  }
}
