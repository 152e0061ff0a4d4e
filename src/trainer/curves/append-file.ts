import { closeSync, ftruncateSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { writeError } from '../../files/json-lines.ts';

/**
 * A new file of binary records. A record is written before `append` returns, so it survives the death of this process; one that could not be written
 * completely is removed again. Records are derived from `metrics.jsonl`, so they are not synced to disk.
 */
export class AppendFile {
  readonly #path: string;
  readonly #file: number;
  #bytes = 0;

  /** Creates the file and its folder. Throws ResultsError, also if the file exists. */
  constructor(path: string) {
    this.#path = path;
    try {
      mkdirSync(dirname(path), { recursive: true });
      this.#file = openSync(path, 'wx');
    } catch (cause) {
      throw writeError(path, cause);
    }
  }

  /** Bytes written so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Throws ResultsError if the bytes cannot be written, for example because the disk is full; the file is then closed. */
  append(bytes: Buffer): void {
    let written = 0;
    try {
      while (written < bytes.length) written += writeSync(this.#file, bytes, written);
    } catch (cause) {
      if (written > 0) ftruncateSync(this.#file, this.#bytes);
      closeSync(this.#file);
      throw writeError(this.#path, cause);
    }
    this.#bytes += written;
  }

  close(): void {
    closeSync(this.#file);
  }
}
