/**
 * Opens files whose path came from outside: a flag, a request, a name in a configuration. If the path leads to a pipe or a device, opening or reading it could wait
 * forever or never reach an end, and a process whose thread waits inside open() cannot even exit. Folders are left to the system's own error.
 */
import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, type ReadStream, type Stats, statSync } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { countText } from '../core/count-text.ts';
import { ConfigError } from '../core/errors.ts';

/** A pipe that takes the file's place after the first look does not block. Windows lacks the flag. */
const FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** Opens for reading. Rejects with ConfigError if the path is something other than a file, else with the system's error. */
export async function openRegularFile(path: string): Promise<FileHandle> {
  checkKind(path, await stat(path));
  const file = await open(path, FLAGS);
  try {
    checkKind(path, await file.stat());
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Opens for reading, synchronously; the caller closes the descriptor. */
export function openRegularFileSync(path: string): number {
  checkKind(path, statSync(path));
  const file = openSync(path, FLAGS);
  try {
    checkKind(path, fstatSync(file));
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

/** Tells whether a path at which nothing was found is a link; what is written to it would be written elsewhere. */
export function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

/** What a path leads to; undefined if that is nothing, as for a link to itself. */
export function statIfThere(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Rejects with ConfigError for something other than a file or a folder, else with the system's error. */
export async function assertRegular(path: string): Promise<void> {
  checkKind(path, await stat(path));
}

/** The file's text. Rejects as `openRegularFile` does. */
export async function readRegularFile(path: string): Promise<string> {
  await using file = await openRegularFile(path);
  return await file.readFile('utf8');
}

/** The file's bytes. Rejects as `openRegularFile` does. */
export async function readRegularBytes(path: string): Promise<Buffer> {
  await using file = await openRegularFile(path);
  return await file.readFile();
}

/** A configuration or manifest of this size is a mistake. */
export const DOCUMENT_BYTES = 16 * 2 ** 20;

/** Reads the file's bytes synchronously. Throws as `openRegularFileSync` does, and ConfigError for a file of more than `mostBytes`. @param mostBytes no limit by default */
export function readRegularBytesSync(path: string, mostBytes = Infinity): Buffer {
  const file = openRegularFileSync(path);
  try {
    checkSize(path, fstatSync(file).size, mostBytes);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

/** The same as UTF-8. */
export function readRegularFileSync(path: string, mostBytes = Infinity): string {
  return readRegularBytesSync(path, mostBytes).toString('utf8');
}

/** Throws ConfigError. */
export function checkSize(path: string, bytes: number, mostBytes: number): void {
  if (bytes > mostBytes) throw new ConfigError(`${path} has ${countText(bytes)} bytes, more than the limit of ${countText(mostBytes)}`);
}

const LEAST_PIECE_BYTES = 2 ** 14;

/** The file's bytes in pieces of at most `pieceBytes`; closes the file at the end. Rejects as `openRegularFile` does. Read it at once: an error without a reader ends the process. */
export async function streamRegularFile(path: string, options: { readonly pieceBytes: number; readonly signal?: AbortSignal }): Promise<ReadStream> {
  const { pieceBytes, signal } = options;
  const file = await openRegularFile(path);
  // Each piece is a buffer of its own: folders of thousands of small files would fill the memory with empty ones.
  const highWaterMark = Math.min(pieceBytes, Math.max((await file.stat()).size, LEAST_PIECE_BYTES));
  return file.createReadStream({ highWaterMark, ...(signal && { signal }) });
}

function checkKind(path: string, about: Stats): void {
  const kind = otherKind(about);
  if (kind !== null) throw new ConfigError(`${path} is ${kind}; name a regular file`);
}

/** What it is if it is neither a file nor a folder, with its article; null if it is one of these. */
export function otherKind(about: Pick<Stats, 'isFile' | 'isDirectory' | 'isFIFO' | 'isSocket'>): string | null {
  if (about.isFile() || about.isDirectory()) return null;
  return about.isFIFO() ? 'a pipe' : about.isSocket() ? 'a socket' : 'a device';
}
