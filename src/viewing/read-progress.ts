/** How far a growing file was read, and whether it still is the file that was read so far. */
import type { FileHandle } from 'node:fs/promises';

/** Bytes before the end of what was read that must be the same: mostly a whole line or more. */
const TAIL_BYTES = 4096;

export class ReadProgress {
  /** Where the rest begins that is to be read. */
  readTo = 0;
  #identity = '';
  #tail: Buffer = Buffer.alloc(0);

  /** Whether a file was read since the last `reset`. */
  get hasBegun(): boolean {
    return this.#identity !== '';
  }

  /**
   * `other` for a file that does not continue what was read: it was replaced, cut, or cut and written again. The number of its inode does not tell, because file
   * systems give it to the next file. A packed file is another one as soon as anything of it changed.
   */
  async compare(file: FileHandle, { isPacked = false } = {}): Promise<'same' | 'grown' | 'other'> {
    const { size, dev, ino, mtimeMs } = await file.stat();
    const identity = isPacked ? `${dev}:${ino}:${size}:${mtimeMs}` : `${dev}:${ino}`;
    const isOther = identity !== this.#identity || (!isPacked && (size < this.readTo || !(await this.#hasTail(file))));
    if (isOther) {
      this.reset();
      this.#identity = identity;
      return 'other';
    }
    return isPacked || size === this.readTo ? 'same' : 'grown';
  }

  async reached(file: FileHandle, readTo: number, { isPacked = false } = {}): Promise<void> {
    this.readTo = readTo;
    if (!isPacked) this.#tail = await bytesBefore(file, readTo);
  }

  /** Forgets the file. */
  reset(): void {
    this.#identity = '';
    this.readTo = 0;
    this.#tail = Buffer.alloc(0);
  }

  async #hasTail(file: FileHandle): Promise<boolean> {
    return (await bytesBefore(file, this.readTo)).equals(this.#tail);
  }
}

async function bytesBefore(file: FileHandle, end: number): Promise<Buffer> {
  const length = Math.min(TAIL_BYTES, end);
  const bytes = Buffer.alloc(length);
  const { bytesRead } = await file.read(bytes, 0, length, end - length);
  return bytes.subarray(0, bytesRead);
}
