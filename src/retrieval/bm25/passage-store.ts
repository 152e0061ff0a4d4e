/** Passages in a file that is read at each hit. */
import { closeSync, fstatSync, readSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { ConfigError, RetrievalError } from '../../core/errors.ts';
import { openRegularFileSync } from '../../files/regular-file.ts';
import { parseCorpusLine } from './corpus-line.ts';
import type { PassageStore, StoredPassage } from './passage-list.ts';
import { systemText } from '../../files/system-text.ts';

/** The place of each row's line, and the checksum of its bytes. */
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

  /** Throws ConfigError if the file does not end with its last line. */
  constructor(path: string, { lineStarts, lineChecksums }: PassageLines) {
    this.#path = path;
    this.#lineStarts = lineStarts;
    this.#lineChecksums = lineChecksums;
    this.#file = openRegularFileSync(path);
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
      throw new RetrievalError(`Could not read passage ${row} of ${this.#path}: ${systemText(cause)}`, { cause });
    }
    // Blank lines may follow the last line.
    const end = bytes.subarray(0, filled).indexOf(LINE_FEED);
    const line = bytes.subarray(0, end < 0 ? filled : end);
    const parsed = crc32(line) === this.#lineChecksums[row] ? parseCorpusLine(line) : null;
    if (parsed?.ok !== true) {
      throw new RetrievalError(
        `Passage ${row} of ${this.#path} has changed since it was indexed. The file was changed or damaged: restore it, or index it again.`,
      );
    }
    return { id: parsed.row.id ?? String(row), contents: parsed.row.contents };
  }

  close(): void {
    if (!this.#isClosed) closeSync(this.#file);
    this.#isClosed = true;
  }
}
