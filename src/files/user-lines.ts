/** Reads files of the user from start to end, one line in memory at a time: unpacked, as UTF-8, without a byte order mark. */
import { isUtf8 } from 'node:buffer';
import { addAbortSignal, type Readable } from 'node:stream';
import { throwIfAborted } from '../core/abort.ts';
import { ConfigError, VfError } from '../core/errors.ts';
import { isDamage, streamUnpacked } from './packed-file.ts';
import { assertNotUtf16, assertReadable, type Encoding, encodingOf, notUtf16, notUtf8 } from './user-text.ts';
import { systemText } from './system-text.ts';

const PIECE_BYTES = 2 ** 18;
const LINE_FEED = 0x0a;
const GZIP = Buffer.from([0x1f, 0x8b]);

interface UserStreamOptions {
  /** Names the file in messages. */
  readonly name: string;
  readonly signal?: AbortSignal;
  readonly onEncoding?: (encoding: Encoding) => void;
}

export interface UserFileOptions {
  /** The file's bytes, which the path then only names. @default the file */
  readonly stream?: Readable;
  readonly signal?: AbortSignal;
  /** Called with the encoding of the file, before its first bytes. */
  readonly onEncoding?: (encoding: Encoding) => void;
  /** Ends the message about a missing file. @default correct its path */
  readonly remedy?: string;
}

export interface UserLinesOptions extends UserFileOptions {
  /** Longest line, in bytes, so that a file without line breaks cannot fill the memory. @default 64 MiB (chosen by us) */
  readonly maxLineBytes?: number;
}

export interface UserLine {
  /** Without the line feed; null if the line is not UTF-8. */
  readonly text: string | null;
  /** From 1 up. */
  readonly number: number;
  /** False for a last line without a line feed. */
  readonly isWhole: boolean;
}

/** The file in pieces; its text is UTF-8 without a byte order mark, unless the bytes were not text. Rejects with ConfigError, which names the file. */
export async function* userBytes(
  path: string,
  { stream, signal, onEncoding, remedy = 'correct its path' }: UserFileOptions = {},
): AsyncGenerator<Buffer, void> {
  try {
    yield* decodedBytes(stream ?? (await streamUnpacked(path, { pieceBytes: PIECE_BYTES })), {
      name: path,
      ...(signal && { signal }),
      ...(onEncoding && { onEncoding }),
    });
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT') throw new ConfigError(`The file ${path} does not exist; ${remedy}`, { cause });
    if (code === 'EISDIR') throw new ConfigError(`${path} is a folder; name a file in it`, { cause });
    throw code === undefined ? cause : new ConfigError(`Could not read ${path}: ${systemText(cause)}`, { cause });
  }
}

/** The first characters of a file, without its mark, and its encoding; empty for an empty file. Rejects as `userBytes` does. */
export async function fileHead(path: string, options: UserFileOptions = {}): Promise<{ readonly text: string; readonly encoding: Encoding }> {
  let encoding: Encoding = 'utf-8';
  const onEncoding = (found: Encoding) => {
    encoding = found;
  };
  for await (const piece of userBytes(path, { ...options, onEncoding })) if (piece.length > 0) return { text: piece.toString('utf8'), encoding };
  return { text: '', encoding };
}

/** As `userBytes`, for a stream. */
async function* decodedBytes(stream: Readable, { name, signal, onEncoding }: UserStreamOptions): AsyncGenerator<Buffer, void> {
  // Lets the signal end the wait for a silent stream.
  if (signal) addAbortSignal(signal, stream);
  let decode: ((piece: Buffer | null) => Buffer) | null = null;
  try {
    for await (const piece of stream as AsyncIterable<Buffer>) {
      if (decode === null) onEncoding?.(encodingOf(piece).encoding);
      decode ??= decoderOf(piece, name);
      yield decode(piece);
    }
    if (decode !== null) yield decode(null);
  } catch (cause) {
    throwIfAborted(signal, `Stopped reading ${name}`);
    if (isDamage(cause)) throw new ConfigError(`Could not unpack ${name}: ${(cause as Error).message}. The file is damaged: restore it.`, { cause });
    if (cause instanceof VfError || (cause as NodeJS.ErrnoException).syscall !== 'read') throw cause;
    throw (cause as NodeJS.ErrnoException).code === 'EISDIR' ? cause : new ConfigError(`Could not read ${name}: ${systemText(cause)}`, { cause });
  }
}

/** Takes pieces of the file, then null at its end. */
function decoderOf(first: Buffer, name: string): (piece: Buffer | null) => Buffer {
  if (first.subarray(0, 2).equals(GZIP))
    throw new ConfigError(`${name} is packed with gzip. Give it the ending .gz, or unpack it: gunzip -c ${name}`);
  assertReadable(first, name);
  const { encoding, markBytes } = encodingOf(first);
  if (encoding === 'utf-8') {
    assertNotUtf16(first.subarray(markBytes), name);
    let skipped = markBytes;
    return (piece) => {
      if (piece === null) return Buffer.alloc(0);
      const rest = piece.subarray(skipped);
      skipped = 0;
      return rest;
    };
  }
  const decoder = new TextDecoder(encoding, { fatal: true });
  return (piece) => {
    try {
      return Buffer.from(piece === null ? decoder.decode() : decoder.decode(piece, { stream: true }), 'utf8');
    } catch (cause) {
      throw notUtf16(name, cause);
    }
  };
}

/** The lines of a file, in order. Splits only at line feeds, because JSON may contain other line separators. Rejects as `userBytes` does, and for a line that is too long. */
export async function* userLines(path: string, { maxLineBytes = 64 * 2 ** 20, ...options }: UserLinesOptions = {}): AsyncGenerator<UserLine, void> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let number = 1;
  const lineOf = (bytes: Buffer, isWhole = true): UserLine => ({ text: isUtf8(bytes) ? bytes.toString('utf8') : null, number, isWhole });
  const assertLength = (bytes: number) => {
    if (bytes > maxLineBytes)
      throw new ConfigError(`Line ${number} of ${path} is longer than ${maxLineBytes} bytes. Check that the file is JSON Lines.`);
  };
  for await (const piece of userBytes(path, options)) {
    let start = 0;
    for (let end = piece.indexOf(LINE_FEED); end >= 0; end = piece.indexOf(LINE_FEED, start)) {
      const rest = piece.subarray(start, end);
      assertLength(pendingBytes + rest.length);
      // Whole lines are decoded, so that the border of a piece cannot split a character.
      yield lineOf(pendingBytes === 0 ? rest : Buffer.concat([...pending, rest]));
      [pending, pendingBytes, start] = [[], 0, end + 1];
      number += 1;
    }
    if (start === piece.length) continue;
    pending.push(piece.subarray(start));
    pendingBytes += piece.length - start;
    assertLength(pendingBytes);
  }
  if (pendingBytes > 0) yield lineOf(Buffer.concat(pending), false);
}

/** The texts of the lines. Rejects as `userLines` does, and with ConfigError for a line that is not UTF-8. */
export async function* userTextLines(
  path: string,
  options: UserLinesOptions = {},
): AsyncGenerator<{ readonly text: string; readonly number: number }, void> {
  for await (const { text, number } of userLines(path, options)) {
    if (text === null) throw notUtf8(path, number);
    yield { text, number };
  }
}
