/** Keeps the table of a file of rollouts up to date. A file that grew is read on from its earlier end; one that was replaced or cut is read from its beginning. */
import type { FileHandle } from 'node:fs/promises';
import { thrownText } from '../core/errors.ts';
import { openInside } from './files-inside.ts';
import { FollowedLines, type IndexedFile } from './followed-lines.ts';
import type { LineProblems } from './line-problems.ts';
import { visitLines } from './line-reader.ts';
import { RolloutTable } from './rollout-table.ts';
import { ViewRequestError } from './view-problem.ts';

export type { IndexedFile } from './followed-lines.ts';

export class RolloutIndex {
  readonly file: IndexedFile;
  readonly #lines: FollowedLines;
  readonly #rewards: FollowedLines | null;
  /** Why the file of rewards cannot be read, which costs no more than the rewards; null if it can. */
  #rewardsProblem: string | null = null;
  /** The table that has the rewards of the file of rewards. */
  #paid: RolloutTable | null = null;
  #table = new RolloutTable();
  #refreshing: Promise<RolloutTable> | null = null;

  /** @param rewards the rewards that the rollouts got later; the file may be missing */
  constructor(file: IndexedFile, rewards: IndexedFile | null = null) {
    this.file = file;
    this.#lines = new FollowedLines(file);
    // The file is only ever replaced as a whole.
    this.#rewards = rewards === null ? null : new FollowedLines(rewards, { isReplaced: true });
  }

  /** As it was after the last refresh. */
  get current(): RolloutTable {
    return this.#table;
  }

  /** What is wrong with the lines that were read, a sentence for each file. */
  problems(isBeingWritten: boolean): string[] {
    const found = [this.#lines, this.#rewards].map((lines) => lines?.problem(isBeingWritten) ?? null);
    return [...found, this.#rewardsProblem].filter((problem) => problem !== null);
  }

  /** Reads new lines. Returns another table if the file was begun again. A missing file has no rollouts. */
  refresh(): Promise<RolloutTable> {
    this.#refreshing ??= this.#refreshBoth().finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  async #refreshBoth(): Promise<RolloutTable> {
    if (this.#rewards === null) return this.#refresh();
    const { directory, name } = this.#rewards.file;
    this.#rewardsProblem = null;
    await using rewards = await openInside(directory, name).catch((error: unknown) => {
      this.#rewardsProblem = thrownText(error);
      return null;
    });
    // Rollouts whose rewards are gone are being played again.
    if (rewards === null && this.#paid !== null) this.#reset();
    const table = await this.#refresh();
    if (rewards === null) return table;
    if (this.#paid !== table) this.#rewards.reset();
    let problems: LineProblems | null = null;
    const begin = (own: LineProblems) => void (problems = own);
    const line = (bytes: Buffer, start: number, end: number) => {
      if (!table.pay(bytes, start, end)) problems?.leaveOut('is no reward of a rollout');
    };
    await this.#rewards.read({ begin, line }).catch((error: unknown) => (this.#rewardsProblem = thrownText(error)));
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
    const begin = (problems: LineProblems) => void (this.#table = new RolloutTable(problems));
    const line = (bytes: Buffer, start: number, end: number, place: number) => this.#table.add(bytes, start, end, place);
    if ((await this.#lines.read({ begin, line })) === 'missing' && this.#lines.hasBegun) this.#reset();
    return this.#table;
  }

  #reset(): void {
    this.#lines.reset();
    this.#rewards?.reset();
    this.#paid = null;
    this.#table = new RolloutTable();
  }
}
