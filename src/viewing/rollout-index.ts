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
  readonly #rewards: IndexedFile | null;
  readonly #rewardsProgress = new ReadProgress();
  /** The table that has the rewards of the file of rewards. */
  #paid: RolloutTable | null = null;
  #table = new RolloutTable();
  readonly #progress = new ReadProgress();
  #refreshing: Promise<RolloutTable> | null = null;

  /** @param rewards the rewards that the rollouts got later; the file may be missing */
  constructor(file: IndexedFile, rewards: IndexedFile | null = null) {
    this.file = file;
    this.#rewards = rewards;
  }

  /** As it was after the last refresh. */
  get current(): RolloutTable {
    return this.#table;
  }

  /** Reads new lines. Returns another table if the file was begun again. A missing file has no rollouts. */
  refresh(): Promise<RolloutTable> {
    this.#refreshing ??= this.#refreshBoth().finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  async #refreshBoth(): Promise<RolloutTable> {
    if (this.#rewards === null) return this.#refresh();
    await using file = await openInside(this.#rewards.directory, this.#rewards.name);
    // Rollouts whose rewards are gone are being played again.
    if (file === null && this.#paid !== null) this.#reset();
    const table = await this.#refresh();
    if (file === null) return table;
    // The file is only ever replaced as a whole.
    const found = await this.#rewardsProgress.compare(file, { isPacked: true });
    if (found === 'same' && this.#paid === table) return table;
    const { name, isPacked } = this.#rewards;
    const visitor = { line: (bytes: Buffer, start: number, end: number) => table.pay(bytes, start, end) };
    await this.#rewardsProgress.reached(file, await visitLines(file, visitor, { name, isPacked }), { isPacked: true });
    this.#paid = table;
    return table;
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
      await visitLines(file, { line }, { name: this.file.name, isPacked: true });
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
    await this.#progress.reached(file, await visitLines(file, visitor, { name, from: this.#progress.readTo, isPacked }), { isPacked });
    return table;
  }

  #reset(): void {
    this.#progress.reset();
    this.#rewardsProgress.reset();
    this.#paid = null;
    this.#table = new RolloutTable();
  }
}
