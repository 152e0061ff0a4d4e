/** Reads a small file at once, which may also be a pipe that a password manager serves. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { countText } from '../core/count-text.ts';
import { ConfigError } from '../core/errors.ts';
import { openRegularFileSync } from './regular-file.ts';
import { putSignalsAside } from './signals-aside.ts';

export interface SmallFileOptions {
  readonly mostBytes: number;
  /** How long a pipe may take to be written, in milliseconds. */
  readonly pipeMs: number;
}

const POLL_MS = 10;

/** Throws ConfigError for a device, a socket, a file that is longer, and a pipe that is not written in time; else the system's error. */
export function readSmallFileSync(path: string, { mostBytes, pipeMs }: SmallFileOptions): Buffer {
  // Opened so, a pipe without a writer does not block.
  const pipe = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  const isPipe = fstatSync(pipe).isFIFO();
  if (!isPipe) closeSync(pipe);
  const file = isPipe ? pipe : openRegularFileSync(path);
  try {
    const bytes = Buffer.alloc(mostBytes + 1);
    const waitUntil = performance.now() + pipeMs;
    using _ = isPipe ? putSignalsAside() : null;
    let length = 0;
    while (length < bytes.length) {
      const read = readSome(file, bytes, length);
      if (read !== null && read > 0) length += read;
      // A pipe whose writer has not come yet reads as empty.
      else if (read === 0 && (!isPipe || length > 0)) return bytes.subarray(0, length);
      else if (performance.now() > waitUntil)
        throw new ConfigError(
          `${path} is a pipe, and nothing was written to it within ${pipeMs / 1000} s; start the program that serves it, or name a regular file`,
        );
      else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS);
    }
    throw new ConfigError(`${path} is longer than ${countText(mostBytes)} bytes; it must be a small file`);
  } finally {
    closeSync(file);
  }
}

/** The number of bytes read; null if a writer has the pipe open and has not written yet. */
function readSome(file: number, bytes: Buffer, at: number): number | null {
  try {
    return readSync(file, bytes, at, bytes.length - at, null);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return null;
    throw error;
  }
}
