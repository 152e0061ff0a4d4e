/** The places of a file's lines by their `rollout_id`, and by `branch` where a rollout has a line for each; of two lines of one the later counts. */
import { type FieldKinds, FoundKinds } from './field-kinds.ts';
import { openInside } from './files-inside.ts';
import { FollowedLines, type IndexedFile } from './followed-lines.ts';
import { NumberColumn } from './growing-columns.ts';
import type { LineProblems } from './line-problems.ts';
import { visitLines } from './line-reader.ts';
import { FieldFinder } from './top-level-fields.ts';

/** Of the lines of tokens.jsonl and of the calls to models by role. */
const KINDS: FieldKinds = {
  branch: 'number',
  token_ids: 'list',
  loss_mask: 'list',
  logprobs: 'list',
  prompt_length: 'number',
  segments: 'list',
  asked: 'list',
};
const FIELDS = ['rollout_id', ...Object.keys(KINDS)];
const BRANCH = FIELDS.indexOf('branch');

function keyOf(rolloutId: string, branch: number): string {
  return `${branch}\n${rolloutId}`;
}

export class LineIndex {
  readonly #lines: FollowedLines;
  readonly #finder = new FieldFinder(FIELDS);
  readonly #kinds = new FoundKinds(FIELDS, KINDS);
  #rows = new Map<string, number>();
  #starts = new NumberColumn();
  #lengths = new NumberColumn();
  #count = 0;
  #problems: LineProblems | null = null;
  #refreshing: Promise<void> | null = null;

  constructor(file: IndexedFile) {
    this.#lines = new FollowedLines(file);
  }

  /** Reads new lines. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => (this.#refreshing = null));
    return this.#refreshing;
  }

  /** What is wrong with the lines that were read; null if nothing is. */
  problem(isBeingWritten: boolean): string | null {
    return this.#lines.problem(isBeingWritten);
  }

  /** The line of a rollout, or of a branch; null if the file has none. */
  async line(rolloutId: string, branch = 0): Promise<string | null> {
    await this.refresh();
    const row = this.#rows.get(keyOf(rolloutId, branch));
    const { directory, name, isPacked } = this.#lines.file;
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
    const line = (bytes: Buffer, start: number, end: number, place: number) => {
      const isObject = this.#finder.find(bytes, start, end);
      const id = isObject ? this.#finder.string(0) : null;
      if (id === null) return this.#problems?.leaveOut(isObject ? 'names no rollout' : 'is no JSON object');
      const wrong = this.#kinds.problem(this.#finder);
      if (wrong !== null) this.#problems?.note(wrong);
      const row = this.#count++;
      const branch = this.#finder.number(BRANCH);
      this.#rows.set(keyOf(id, Number.isNaN(branch) ? 0 : branch), row);
      this.#starts.set(row, place);
      this.#lengths.set(row, end - start);
    };
    if ((await this.#lines.read({ begin: (problems) => this.#begin(problems), line })) === 'missing' && this.#lines.hasBegun) {
      this.#lines.reset();
      this.#begin(null);
    }
  }

  #begin(problems: LineProblems | null): void {
    this.#problems = problems;
    this.#rows = new Map();
    this.#starts = new NumberColumn();
    this.#lengths = new NumberColumn();
    this.#count = 0;
  }
}
