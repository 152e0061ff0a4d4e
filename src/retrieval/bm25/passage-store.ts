/** Where the text of passages is kept: in memory, or in a file from which a passage is read when it is found. */
import { closeSync, fstatSync, readSync } from 'node:fs';
import { ConfigError, RetrievalError } from '../../core/errors.ts';
import { openRegularFileSync } from '../../files/regular-file.ts';
import { parseCorpusLine } from './corpus-line.ts';

export interface StoredPassage {
  readonly id: string;
  readonly contents: string;
}

export interface PassageStore {
  /** Throws RetrievalError when the passage cannot be read. */
  read(row: number): StoredPassage;
  close(): void;
}

export class PassageFile implements PassageStore {
  readonly #path: string;
  readonly #lineStarts: Float64Array;
  readonly #file: number;
  #isClosed = false;

  /** `lineStarts`: first byte of each row's line, then the end of the file; throws ConfigError unless that is where it ends. */
  constructor(path: string, lineStarts: Float64Array) {
    this.#path = path;
    this.#lineStarts = lineStarts;
    this.#file = openRegularFileSync(path);
    const expected = lineStarts.at(-1)!;
    const { size } = fstatSync(this.#file);
    if (size === expected) return;
    this.close();
    throw new ConfigError(`Expected ${path} to have ${expected} bytes, got ${size}; it was cut short or changed: build the index again`);
  }

  read(row: number): StoredPassage {
    if (this.#isClosed) throw new RetrievalError(`Expected an open index, ${this.#path} is closed`);
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
      throw new RetrievalError(`Expected passage ${row} of ${this.#path} as it was indexed, the file has changed since; open it again`);
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
