/**
 * Reads whole lines from a file that another process may be writing: a piece at a time, without a lock, and with no more memory than the longest line needs. Longer
 * lines are passed over.
 */
import type { FileHandle } from 'node:fs/promises';
import { createGunzip } from 'node:zlib';
import { ConfigError } from '../core/errors.ts';
import { isDamage } from '../files/packed-file.ts';

/** A rollout of a million tokens is shorter. */
export const MOST_LINE_BYTES = 32 * 2 ** 20;
const PIECE_BYTES = 2 * 2 ** 20;
/** Some editors put it before the first line. */
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

export interface LineVisitor {
  /** The line is `[start, end)` of the bytes, which are used again afterwards. `place` is its first byte in the file. */
  readonly line: (bytes: Buffer, start: number, end: number, place: number) => void;
  /** A line longer than `MOST_LINE_BYTES`. */
  readonly tooLong?: (place: number) => void;
  /** The file ends without a line feed. `isWhole`: what stands there ends like a whole object. */
  readonly rest?: (isWhole: boolean) => void;
}

export interface ReadLinesOptions {
  /** The first byte to read, which is the start of a line. @default 0 */
  readonly from?: number;
  /** Names the file in errors. */
  readonly name: string;
  /** A gzip file; places count its unpacked bytes. @default false */
  readonly isPacked?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** Passes on every line that ends with a line feed, and resolves with the start of the rest. */
export async function visitLines(file: FileHandle, visitor: LineVisitor, options: ReadLinesOptions): Promise<number> {
  const { name, from = 0, isPacked = false, signal } = options;
  const splitter = new LineSplitter(visitor, isPacked ? 0 : from);
  if (isPacked) await unpack(file, splitter, { name, signal });
  else
    for (let position = from; ;) {
      signal?.throwIfAborted();
      const space = splitter.space();
      const { bytesRead } = await file.read(space, 0, space.length, position);
      if (bytesRead === 0) break;
      position += bytesRead;
      splitter.filled(bytesRead);
    }
  splitter.ended();
  return splitter.rest;
}

async function unpack(
  file: FileHandle,
  splitter: LineSplitter,
  { name, signal }: { readonly name: string; readonly signal: AbortSignal | undefined },
): Promise<void> {
  const packed = file.createReadStream({ start: 0, autoClose: false });
  const unpacked = packed.pipe(createGunzip());
  packed.on('error', (error) => unpacked.destroy(error));
  try {
    for await (const chunk of unpacked as AsyncIterable<Buffer>) {
      signal?.throwIfAborted();
      for (let at = 0; at < chunk.length;) {
        const copied = chunk.copy(splitter.space(), 0, at);
        splitter.filled(copied);
        at += copied;
      }
    }
  } catch (cause) {
    if (isDamage(cause)) throw new ConfigError(`${name} is damaged: it cannot be unpacked. Restore it from a copy.`, { cause });
    throw cause;
  } finally {
    packed.destroy();
  }
}

class LineSplitter {
  readonly #visitor: LineVisitor;
  #bytes = Buffer.allocUnsafeSlow(PIECE_BYTES);
  #length = 0;
  /** The start of the current line. */
  #start: number;
  /** Bytes of the line that were discarded; 0 unless it is too long. */
  #skipped = 0;

  constructor(visitor: LineVisitor, from: number) {
    this.#visitor = visitor;
    this.#start = from;
  }

  /** The start of the first line that has no line feed yet. */
  get rest(): number {
    return this.#start;
  }

  /** The room for the next bytes. */
  space(): Buffer {
    if (this.#length === this.#bytes.length) {
      const longer = Buffer.allocUnsafeSlow(this.#bytes.length * 2);
      this.#bytes.copy(longer);
      this.#bytes = longer;
    }
    return this.#bytes.subarray(this.#length);
  }

  filled(count: number): void {
    const bytes = this.#bytes;
    const end = this.#length + count;
    let from = 0;
    // The bytes before have no line feed.
    for (let at = indexOfLineFeed(bytes, this.#length, end); at >= 0; at = indexOfLineFeed(bytes, from, end)) {
      if (this.#skipped > 0) this.#visitor.tooLong?.(this.#start);
      else {
        const mark = this.#start === 0 && bytes.subarray(from, at).indexOf(BYTE_ORDER_MARK) === 0 ? BYTE_ORDER_MARK.length : 0;
        this.#visitor.line(bytes, from + mark, at, this.#start + mark);
      }
      this.#start += this.#skipped + at + 1 - from;
      this.#skipped = 0;
      from = at + 1;
    }
    this.#length = end - from;
    if (this.#skipped > 0 || this.#length > MOST_LINE_BYTES) this.#skip();
    else if (from > 0) bytes.copyWithin(0, from, end);
  }

  ended(): void {
    const rest = this.#bytes
      .subarray(0, this.#length)
      .toString('latin1', Math.max(0, this.#length - 16))
      .trimEnd();
    if (this.#skipped > 0 || rest !== '') this.#visitor.rest?.(this.#skipped === 0 && rest.endsWith('}'));
  }

  #skip(): void {
    this.#skipped += this.#length;
    this.#length = 0;
    if (this.#bytes.length > PIECE_BYTES) this.#bytes = Buffer.allocUnsafeSlow(PIECE_BYTES);
  }
}

function indexOfLineFeed(bytes: Buffer, from: number, end: number): number {
  const at = bytes.indexOf(10, from);
  return at < end ? at : -1;
}
