import { RetrievalError } from '../../core/errors.ts';
import type { BuildState, DenseFolder } from './dense-folder.ts';
import type { DenseTable, EmbeddedPassage } from './dense-table.ts';
import type { EmbeddedBatch } from './embedded-in-order.ts';

/** The most that a kill costs if embedding is slow. */
const COMMIT_MS = 30_000;

export interface CommitWriterOptions {
  readonly folder: DenseFolder;
  readonly table: DenseTable;
  readonly state: BuildState;
  /** Passages in the table. */
  readonly rows: number;
  /** Passages that are written at a time. */
  readonly commitRows: number;
}

/** Writes embedded passages to the table in commits. The state on disk names the rows before and after each, because a kill can fall between the two writes. */
export class CommitWriter {
  /** Including those that are not written yet. */
  rows: number;
  /** Null before the first passage. */
  dim: number | null;
  readonly #options: CommitWriterOptions;
  #pending: EmbeddedPassage[] = [];
  #sha256 = '';
  #last: BuildState['commits'];
  #writtenAt = performance.now();

  constructor(options: CommitWriterOptions) {
    const { rows, state } = options;
    this.#options = options;
    this.rows = rows;
    this.dim = rows > 0 ? state.dim : null;
    this.#last = state.commits.filter((commit) => commit.rows === rows);
  }

  /** Throws RetrievalError if the vectors have another length than those before. */
  async add({ passages, vectors, sha256 }: EmbeddedBatch): Promise<void> {
    for (const [i, passage] of passages.entries()) {
      const vector = vectors[i]!;
      this.dim ??= vector.length;
      if (vector.length !== this.dim)
        throw new RetrievalError(
          `The model made a vector of ${vector.length} numbers now and of ${this.dim} before. Use one model throughout, or start over with --force.`,
        );
      this.#pending.push({ ...passage, vector });
    }
    this.rows += passages.length;
    this.#sha256 = sha256;
    if (this.#pending.length >= this.#options.commitRows || performance.now() - this.#writtenAt >= COMMIT_MS) await this.commit();
  }

  async commit(): Promise<void> {
    if (this.#pending.length === 0) return;
    const { folder, table, state } = this.#options;
    const next = { rows: this.rows, sha256: this.#sha256 };
    await folder.keepState({ ...state, dim: this.dim, commits: [...this.#last, next] });
    await table.append(this.#pending, this.rows - this.#pending.length);
    this.#last = [next];
    this.#pending = [];
    this.#writtenAt = performance.now();
  }
}
