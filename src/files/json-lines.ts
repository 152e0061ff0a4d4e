/**
 * Files with one JSON value per line, written so that only the last line can ever be incomplete: lines are appended whole, repaired when the
 * file is opened again, and replaced by rename.
 */
import { fstatSync, ftruncateSync, readSync, statSync, writeSync } from 'node:fs';
import { type FileHandle, open, rename, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { ConfigError, ResultsError } from '../core/errors.ts';
import { wellFormedJson } from '../schemas/well-formed-json.ts';
import { isDiskFull } from './disk-full.ts';
import { isLink, openRegularFile, streamRegularFile } from './regular-file.ts';
import { isDamage, streamUnpacked, unpackError } from './packed-file.ts';
import { removeLeftOvers, temporaryName } from './temporary-names.ts';
import { systemText } from './system-text.ts';

/** One line of a file. `text` is without the line feed; `[start, end)`, in bytes, includes it. */
export interface Line {
  readonly text: string;
  /** From 1 up. */
  readonly number: number;
  readonly start: number;
  readonly end: number;
  /** False for a last line without a line feed. */
  readonly isWhole: boolean;
}

/**
 * The lines of a file, one at a time. Splits only at line feeds, because JSON may contain other line separators. A missing file has no lines, unless
 * `remedy` says what to do then. With `isPacked`, the lines of a packed file.
 */
export async function* readLines(
  path: string,
  { remedy, isPacked = false }: { readonly remedy?: string; readonly isPacked?: boolean } = {},
): AsyncGenerator<Line, void> {
  let held: Buffer[] = [];
  let start = 0;
  let position = 0;
  let number = 1;
  try {
    const bytes = await (isPacked ? streamUnpacked : streamRegularFile)(path, { pieceBytes: 1 << 18 });
    for await (const chunk of bytes as AsyncIterable<Buffer>) {
      let from = 0;
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, from)) {
        const text = Buffer.concat([...held, chunk.subarray(from, at)]).toString('utf8');
        held = [];
        from = at + 1;
        yield { text, number: number++, start, end: position + from, isWhole: true };
        start = position + from;
      }
      held.push(chunk.subarray(from));
      position += chunk.length;
    }
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'EISDIR')
      throw new ConfigError(`${path} is a folder${remedy === undefined ? ' where a file was. Restore the file.' : '; name a file in it'}`, { cause });
    if (isDamage(cause)) throw unpackError(path, cause);
    if (code !== 'ENOENT') throw new ResultsError(`Could not read ${path}: ${systemText(cause)}`, { cause });
    // A file that is missing is created when the first line is written; through a link it would be created elsewhere.
    if (isLink(path))
      throw new ConfigError(`${path} is a link to a file that does not exist. Remove the link, or restore what it leads to.`, { cause });
    if (remedy !== undefined) throw new ConfigError(`The file ${path} does not exist; ${remedy}`, { cause });
    return;
  }
  if (position > start) yield { text: Buffer.concat(held).toString('utf8'), number, start, end: position, isWhole: false };
}

/** A line of a file by its place, or a new one by its text. */
export type KeptLine = Pick<Line, 'start' | 'end' | 'isWhole'> | { readonly newText: string };

/**
 * Replaces the file by one with the given lines, in order and each with a line feed. Lines of the old file keep their bytes. A crash leaves the old file or the new
 * one.
 */
export async function keepLines(path: string, lines: readonly KeptLine[]): Promise<void> {
  await replaceFile(path, async (write) => {
    const source = await openRegularFile(path);
    try {
      for (const line of lines) {
        if ('newText' in line) {
          await write(Buffer.from(`${line.newText}\n`, 'utf8'));
          continue;
        }
        const { start, end, isWhole } = line;
        const bytes = Buffer.alloc(end - start + (isWhole ? 0 : 1), '\n');
        await source.read(bytes, 0, end - start, start);
        await write(bytes);
      }
    } finally {
      await source.close();
    }
  });
}

/** Writes a new file next to the old one, syncs it to disk, and renames it into place. */
export async function replaceFile(path: string, fill: (write: (bytes: Buffer) => Promise<void>) => Promise<void>): Promise<void> {
  const temporary = temporaryName(path);
  // Errors of `fill` itself are not write errors.
  const written = <T>(work: Promise<T>): Promise<T> =>
    work.catch((cause: unknown) => {
      throw replaceError(path, cause);
    });
  try {
    removeLeftOvers(path);
    const file = await written(open(temporary, 'w'));
    try {
      await fill((bytes) => written(file.appendFile(bytes)));
      await written(file.sync());
    } finally {
      await file.close();
    }
    await written(rename(temporary, path));
    await written(syncDirectory(dirname(path)));
  } catch (error) {
    await unlink(temporary).catch(() => {});
    throw error;
  }
}

function replaceError(path: string, cause: unknown): ResultsError {
  const remedy = isDiskFull(cause) ? 'the disk is full. Free some space and run the command again' : systemText(cause);
  return new ResultsError(`Could not write ${path}: ${remedy}. What stood there before is kept.`, { cause });
}

/**
 * Appends whole lines synchronously, so that a finished rollout is on file before the event loop continues. What `append` has written survives the
 * death of this process, and reaches the disk within `SYNC_MS` or on `close`. An incomplete line is removed again, so that the file stays
 * readable.
 */
export class LineAppender {
  static readonly SYNC_MS = 1000;
  readonly #path: string;
  readonly #file: FileHandle;
  #timer: NodeJS.Timeout | null = null;
  #failure: ResultsError | null = null;
  #syncing: Promise<void> = Promise.resolve();

  private constructor(path: string, file: FileHandle) {
    this.#path = path;
    this.#file = file;
  }

  static async open(path: string): Promise<LineAppender> {
    try {
      return new LineAppender(path, await open(path, 'a+'));
    } catch (cause) {
      throw writeError(path, cause);
    }
  }

  /** Appends the lines in one write. After a failure every further call fails. */
  append(lines: readonly string[]): void {
    this.#assertInPlace();
    const bytes = Buffer.from(`${wellFormedJson(lines.join('\n'))}\n`, 'utf8');
    let written = 0;
    try {
      // A write may end early, e.g. on a full disk; the next one then throws the reason.
      while (written < bytes.length) written += writeSync(this.#file.fd, bytes, written);
    } catch (cause) {
      this.#failure = writeError(this.#path, cause);
      this.#takeBack(bytes.subarray(0, written));
      throw this.#failure;
    }
    this.#timer ??= setTimeout(() => this.#sync(), LineAppender.SYNC_MS).unref();
  }

  /** Appends one line that is given in pieces, so that a long one never exists as a whole. After a failure every further call fails. */
  appendPieces(pieces: Iterable<string>): void {
    this.#assertInPlace();
    const start = fstatSync(this.#file.fd).size;
    let size = 0;
    try {
      for (const bytes of chunked(pieces)) {
        for (let written = 0; written < bytes.length;) written += writeSync(this.#file.fd, bytes, written);
        size += bytes.length;
      }
    } catch (cause) {
      this.#failure = writeError(this.#path, cause);
      this.#cutBackTo(start, size);
      throw this.#failure;
    }
    this.#timer ??= setTimeout(() => this.#sync(), LineAppender.SYNC_MS).unref();
  }

  async close(): Promise<void> {
    if (this.#timer) this.#sync();
    await this.#syncing;
    await this.#file.close();
    if (this.#failure) throw this.#failure;
  }

  /** Lines that go to a file which was removed would be lost without a word. */
  #assertInPlace(): void {
    if (this.#failure) throw this.#failure;
    const [own, there] = [fstatSync(this.#file.fd), statSync(this.#path, { throwIfNoEntry: false })];
    if (there?.ino === own.ino && there.dev === own.dev) return;
    this.#failure = new ResultsError(
      `${this.#path} was ${there === undefined ? 'removed or renamed' : 'replaced'} while this process wrote to it, so nothing further can be recorded. ` +
        'Put the file or its folder back and resume the run, or start a new one',
    );
    throw this.#failure;
  }

  /** Removes an incomplete line, unless another process has appended to the file since. */
  #cutBackTo(start: number, whole: number): void {
    const { fd } = this.#file;
    try {
      const { size } = fstatSync(fd);
      // The failed write may have written a part of its piece.
      if (size >= start + whole && size <= start + whole + CHUNK_BYTES) ftruncateSync(fd, start);
    } catch {
      // Devices cannot be truncated. In a file, the next resume drops the incomplete line.
    }
  }

  #sync(): void {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
    this.#syncing = this.#syncing
      .then(() => this.#file.datasync())
      .catch((cause: unknown) => {
        // Devices and some network file systems cannot sync; no data is lost.
        if ((cause as NodeJS.ErrnoException).code !== 'EINVAL') this.#failure ??= writeError(this.#path, cause);
      });
  }

  /** Removes the written part of a line, unless another process has appended to the file since. */
  #takeBack(written: Buffer): void {
    const { fd } = this.#file;
    try {
      const start = fstatSync(fd).size - written.length;
      const end = Buffer.alloc(written.length);
      readSync(fd, end, 0, end.length, start);
      if (end.equals(written)) ftruncateSync(fd, start);
    } catch {
      // Devices cannot be truncated. In a file, the next resume drops the incomplete line.
    }
  }
}

/** Longest piece that is written at once, unless a single one is longer. */
const CHUNK_BYTES = 2 ** 20;
const CHUNK_CHARACTERS = 2 ** 16;

/** The pieces and a line feed, in several chunks. */
export function* chunked(pieces: Iterable<string>): Generator<Buffer> {
  let held = '';
  for (const piece of pieces) {
    held += piece;
    if (held.length < CHUNK_CHARACTERS) continue;
    yield Buffer.from(wellFormedJson(held), 'utf8');
    held = '';
  }
  yield Buffer.from(`${wellFormedJson(held)}\n`, 'utf8');
}

/** The lines, each with its line feed, in several chunks, because all together may be longer than a string can be. */
export function* chunkedLines(lines: readonly string[]): Generator<Buffer> {
  if (lines.length > 0) yield* chunked(separated(lines));
}

function* separated(lines: readonly string[]): Generator<string> {
  for (const [i, line] of lines.entries()) yield i === 0 ? line : `\n${line}`;
}

/** The JSON of a table whose lists may be long, in pieces: each list an item at a time. */
export function* jsonPieces(table: Readonly<Record<string, unknown>>): Generator<string> {
  let separator = '{';
  for (const [key, value] of Object.entries(table)) {
    if (value === undefined) continue;
    yield `${separator}${JSON.stringify(key)}:`;
    separator = ',';
    if (Array.isArray(value) && value.length > 0) {
      for (const [i, item] of value.entries()) yield (i === 0 ? '[' : ',') + (JSON.stringify(item) ?? 'null');
      yield ']';
    } else {
      yield JSON.stringify(value) ?? 'null';
    }
  }
  yield separator === '{' ? '{}' : '}';
}

/** Makes a rename durable. Does nothing if the system cannot open or sync a directory. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r').catch(() => null);
  await directory?.sync().catch(() => {});
  await directory?.close();
}

export function writeError(path: string, cause: unknown): ResultsError {
  const remedy = isDiskFull(cause) ? ': the disk is full. Free some space and resume the run' : `: ${systemText(cause)}`;
  return new ResultsError(`Could not write ${path}${remedy}. Everything recorded before is kept.`, { cause });
}
