/** Stores the text of passages: in memory, or in a file that is read at each hit. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { ConfigError, RetrievalError } from '../../core/errors.ts';
import { parseCorpusLine } from './corpus-line.ts';

export interface StoredPassage {
  readonly id: string;
  readonly contents: string;
}

export interface PassageStore {
  /** Throws RetrievalError if the passage cannot be read. */
  read(row: number): StoredPassage;
  close(): void;
}

export class PassageFile implements PassageStore {
  readonly #path: string;
  readonly #lineStarts: Float64Array;
  readonly #file: number;
  #isClosed = false;

  /** `lineStarts`: offset of each row's line, then the end of the file. Throws ConfigError if the file ends elsewhere. */
  constructor(path: string, lineStarts: Float64Array) {
    this.#path = path;
    this.#lineStarts = lineStarts;
    this.#file = openSync(path, 'r');
    const expected = lineStarts.at(-1)!;
    const { size } = fstatSync(this.#file);
    if (size === expected) return;
    this.close();
    throw new ConfigError(`${path} must have ${expected} bytes, got ${size}: it was truncated or changed. Build the index again.`);
  }

  read(row: number): StoredPassage {
    if (this.#isClosed) throw new RetrievalError(`The index of ${this.#path} was closed.`);
    const start = this.#lineStarts[row]!;
    const bytes = Buffer.allocUnsafe(this.#lineStarts[row + 1]! - start);
    let filled = 0;
    try {
      while (filled < bytes.length) {
        const count = readSync(this.#file, bytes, filled, bytes.length - filled, start + filled);
        if (count === 0) break;
        filled += count;
      }
    } catch (cause) {
      throw new RetrievalError(`Could not read passage ${row} of ${this.#path}: ${(cause as Error).message}`, { cause });
    }
    const parsed = parseCorpusLine(bytes.subarray(0, filled));
    if (!parsed.ok) {
      throw new RetrievalError(`Passage ${row} of ${this.#path} has changed since it was indexed. Open the file again.`);
    }
    return { id: parsed.row.id ?? String(row), contents: parsed.row.contents };
  }

  close(): void {
    if (!this.#isClosed) closeSync(this.#file);
    this.#isClosed = true;
  }
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
