/** Reads the lines of a file that may still grow, each once. Lines are handed over as bytes in place, because most of a line is never looked at. */
import type { FileHandle } from 'node:fs/promises';
import { openRegularFile } from '../files/regular-file.ts';

const PIECE_BYTES = 4 * 2 ** 20;

export interface LineVisitor {
  /** The file was replaced or cut: what was read before counts no more. */
  reset(): void;
  /** The line in `[start, end)` of the piece, without its line feed; `place` is its first byte in the file. */
  line(piece: Buffer, start: number, end: number, place: number): void;
}

export class GrowingFile {
  readonly path: string;
  #readTo = 0;
  #identity = '';
  #reading: Promise<void> | null = null;

  constructor(path: string) {
    this.path = path;
  }

  /** Visits the whole lines that were appended since the last call. A missing file has no lines. Calls at the same time share one reading. */
  readOn(visitor: LineVisitor): Promise<void> {
    return (this.#reading ??= this.#readOn(visitor).finally(() => (this.#reading = null)));
  }

  /** The text of a line, by its place and length in bytes. */
  async text(place: number, length: number): Promise<string> {
    await using file = await openRegularFile(this.path);
    const bytes = Buffer.alloc(length);
    const { bytesRead } = await file.read(bytes, 0, length, place);
    return bytes.toString('utf8', 0, bytesRead);
  }

  async #readOn(visitor: LineVisitor): Promise<void> {
    let file: FileHandle;
    try {
      file = await openRegularFile(this.path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      this.#begin('', visitor);
      return;
    }
    try {
      const { size, ino, dev } = await file.stat();
      const identity = `${dev}:${ino}`;
      if (identity !== this.#identity || size < this.#readTo) this.#begin(identity, visitor);
      if (size > this.#readTo) await this.#visit(file, visitor);
    } finally {
      await file.close();
    }
  }

  #begin(identity: string, visitor: LineVisitor): void {
    if (this.#readTo > 0) visitor.reset();
    this.#identity = identity;
    this.#readTo = 0;
  }

  async #visit(file: FileHandle, visitor: LineVisitor): Promise<void> {
    let held = 0;
    let buffer = Buffer.allocUnsafe(PIECE_BYTES);
    for (;;) {
      if (held === buffer.length) buffer = Buffer.concat([buffer], buffer.length * 2);
      const { bytesRead } = await file.read(buffer, held, buffer.length - held, this.#readTo + held);
      if (bytesRead === 0) return;
      const end = held + bytesRead;
      let from = 0;
      for (let at = buffer.indexOf(10, held); at >= 0 && at < end; at = buffer.indexOf(10, from)) {
        visitor.line(buffer, from, at, this.#readTo + from);
        from = at + 1;
      }
      this.#readTo += from;
      buffer.copyWithin(0, from, end);
      held = end - from;
    }
  }
}
