/** Records how far a growing file was read, and whether it is still the same file. */
import type { FileHandle } from 'node:fs/promises';

/** Bytes before the end of the read part that must be unchanged: mostly a whole line or more. */
const TAIL_BYTES = 4096;

export class ReadProgress {
  /** The start of the part that is still to be read. */
  readTo = 0;
  #identity = '';
  #tail: Buffer = Buffer.alloc(0);

  /** True if a file was read since the last `reset`. */
  get hasBegun(): boolean {
    return this.#identity !== '';
  }

  /**
   * `other` for a file that does not continue the read part: it was replaced, cut, or cut and written again. The inode number does not tell, because file systems
   * give it to the next file. Any change to a packed file makes it another one.
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
