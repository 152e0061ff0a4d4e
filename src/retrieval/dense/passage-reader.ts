/** Reads the passages of a corpus in batches, skips those that are embedded already, and checks that they are the same ones. */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { ConfigError } from '../../core/errors.ts';
import type { CorpusRow } from '../bm25/corpus-line.ts';
import { streamCorpus } from '../bm25/corpus-stream.ts';
import type { BuildState } from './dense-folder.ts';

export interface PassageBatch {
  readonly passages: readonly { readonly id: string; readonly contents: string }[];
  /** Bytes of the corpus up to its end, estimated between the pieces that are read. */
  readonly bytes: number;
  /** Checksum of all passages up to its end. */
  readonly sha256: string;
}

export interface CorpusFacts {
  readonly rows: number;
  readonly bytes: number;
  /** Of the bytes of the corpus. */
  readonly sha256: string;
}

export interface PassageReaderOptions {
  /** Name of the corpus in messages. */
  readonly name: string;
  /** Passages that are embedded already. */
  readonly skipped: number;
  readonly commits: BuildState['commits'];
}

export class PassageReader {
  readonly #options: PassageReaderOptions;
  readonly #expected: string | null;
  readonly #hash = createHash('sha256');
  #rows = 0;
  #facts: CorpusFacts | null = null;

  /** Throws ConfigError if nothing is known about the skipped passages. */
  constructor(options: PassageReaderOptions) {
    const { skipped, commits } = options;
    this.#options = options;
    this.#expected = commits.find(({ rows }) => rows === skipped)?.sha256 ?? null;
    if (skipped > 0 && this.#expected === null)
      throw new ConfigError(`The unfinished index holds ${skipped} passages that its building.json does not know. Start over with --force.`);
  }

  /** Throws ConfigError if the corpus cannot be read, or begins with other passages than those that are embedded. */
  async *batches(stream: Readable, size: number, signal: AbortSignal): AsyncGenerator<PassageBatch, void> {
    const { name, skipped } = this.#options;
    let passages: { id: string; contents: string }[] = [];
    let before = 0;
    const batch = (bytes: number): PassageBatch => ({ passages, bytes, sha256: this.#hash.copy().digest('hex') });
    for await (const piece of streamCorpus(stream, { name, signal })) {
      for (const [i, row] of piece.rows.entries()) {
        const passage = this.#numbered(row);
        if (this.#rows === skipped) this.#assertSame();
        if (this.#rows <= skipped) continue;
        passages.push(passage);
        if (passages.length < size) continue;
        yield batch(before + Math.round(((piece.bytes - before) * (i + 1)) / piece.rows.length));
        passages = [];
      }
      before = piece.bytes;
      if (piece.sha256 !== null) this.#facts = { rows: this.#rows, bytes: piece.bytes, sha256: piece.sha256 };
    }
    if (this.#rows < skipped) this.#refuse();
    if (passages.length > 0) yield batch(before);
  }

  /** Of the whole corpus, once all batches were read. */
  facts(): CorpusFacts {
    return this.#facts!;
  }

  #numbered({ id, contents }: CorpusRow): { id: string; contents: string } {
    const passage = { id: id ?? String(this.#rows), contents };
    this.#rows += 1;
    this.#hash.update(`${JSON.stringify(passage)}\n`);
    return passage;
  }

  #assertSame(): void {
    if (this.#hash.copy().digest('hex') !== this.#expected) this.#refuse();
  }

  #refuse(): never {
    const { name, skipped } = this.#options;
    throw new ConfigError(
      `${name} does not begin with the ${skipped} passages that are embedded already. Restore the corpus, or start over with --force.`,
    );
  }
}
