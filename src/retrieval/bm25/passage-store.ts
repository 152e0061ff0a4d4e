/** Where the text of passages is kept: in memory, or in a file from which a passage is read when it is found. */
import { closeSync, fstatSync, readSync } from 'node:fs';
import { crc32 } from 'node:zlib';
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

/** Where each row's line lies, and the checksum of its bytes. */
interface PassageLines {
  /** First byte of each row's line, then the end of the file. [rows + 1] */
  readonly lineStarts: Float64Array;
  /** CRC-32 of each row's line, without its line feed. [rows] */
  readonly lineChecksums: Uint32Array;
}

const LINE_FEED = 10;

export class PassageFile implements PassageStore {
  readonly #path: string;
  readonly #lineStarts: Float64Array;
  readonly #lineChecksums: Uint32Array;
  readonly #file: number;
  #isClosed = false;

  /** Throws ConfigError unless the file ends where its last line does. */
  constructor(path: string, { lineStarts, lineChecksums }: PassageLines) {
    this.#path = path;
    this.#lineStarts = lineStarts;
    this.#lineChecksums = lineChecksums;
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
    // The last line may be followed by blank ones.
    const end = bytes.subarray(0, filled).indexOf(LINE_FEED);
    const line = bytes.subarray(0, end < 0 ? filled : end);
    const parsed = crc32(line) === this.#lineChecksums[row] ? parseCorpusLine(line) : null;
    if (parsed?.ok !== true) {
      throw new RetrievalError(
        `Expected passage ${row} of ${this.#path} as it was indexed, its bytes differ: the file was changed or damaged; restore it, or index it again`,
      );
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
