/**
 * The text of a file of the user. UTF-8, and UTF-16 with a byte order mark (PowerShell's `>` writes it), without the mark. Other bytes are refused: a reader that
 * replaced them would change answers and names without a word.
 */
import { isUtf8 } from 'node:buffer';
import { closeSync, readFileSync } from 'node:fs';
import { ConfigError } from '../core/errors.ts';
import { openRegularFile, openRegularFileSync } from './regular-file.ts';

export type Encoding = 'utf-8' | 'utf-16le' | 'utf-16be';

const MARKS: readonly (readonly [Encoding, readonly number[]])[] = [
  ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]],
  ['utf-16be', [0xfe, 0xff]],
];

/** The encoding that the first bytes of a file announce, and the length of their mark in bytes. @default UTF-8 without a mark */
export function encodingOf(bytes: Uint8Array): { readonly encoding: Encoding; readonly markBytes: number } {
  for (const [encoding, mark] of MARKS) if (mark.every((byte, i) => bytes[i] === byte)) return { encoding, markBytes: mark.length };
  return { encoding: 'utf-8', markBytes: 0 };
}

/**
 * The text without its byte order mark. Throws ConfigError, which names the file and the first line that cannot be decoded.
 * @param path names the file in the error
 */
export function decodeText(bytes: Uint8Array, path: string): string {
  assertReadable(bytes, path);
  const { encoding, markBytes } = encodingOf(bytes);
  const content = bytes.subarray(markBytes);
  if (encoding === 'utf-8') {
    if (!isUtf8(content)) throw notUtf8(path, badLine(content));
    assertNotUtf16(content, path);
    return Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString('utf8');
  }
  try {
    return new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(content);
  } catch (cause) {
    throw notUtf16(path, cause);
  }
}

/** Throws ConfigError if the first bytes of a file are those of UTF-32, whose mark begins with that of UTF-16, or of a workbook. */
export function assertReadable(bytes: Uint8Array, path: string): void {
  const begins = (...start: readonly number[]) => start.every((byte, i) => bytes[i] === byte);
  if (begins(0xff, 0xfe, 0, 0) || begins(0, 0, 0xfe, 0xff)) throw new ConfigError(`${path} is UTF-32. Convert the file to UTF-8.`);
  if (begins(0x50, 0x4b, 3, 4)) throw new ConfigError(`${path} is a zip archive or a workbook (.xlsx). Unpack it, or save it as CSV in UTF-8.`);
}

/** The text of a file. Rejects as `openRegularFile` does, and with the error of `decodeText`. */
export async function readUserText(path: string): Promise<string> {
  await using file = await openRegularFile(path);
  return decodeText(await file.readFile(), path);
}

/** As `readUserText`, synchronously. */
export function readUserTextSync(path: string): string {
  const file = openRegularFileSync(path);
  try {
    return decodeText(readFileSync(file), path);
  } finally {
    closeSync(file);
  }
}

/** Throws ConfigError for the beginning of UTF-16 without a byte order mark: every other byte is zero in plain text, which UTF-8 allows and no reader would notice. */
export function assertNotUtf16(content: Uint8Array, path: string): void {
  if (content[0] === 0 || content[1] === 0)
    throw new ConfigError(`${path} is not UTF-8: it looks like UTF-16 without a byte order mark. Convert the file to UTF-8.`);
}

/** The error for a file that cannot be decoded as its byte order mark says. */
export function notUtf16(path: string, cause: unknown): ConfigError {
  return new ConfigError(`${path} begins with the byte order mark of UTF-16, but is not UTF-16. Convert the file to UTF-8.`, { cause });
}

export function notUtf8(path: string, line: number): ConfigError {
  return new ConfigError(`Line ${line} of ${path} is not UTF-8. Convert the file to UTF-8.`);
}

/** The first line whose bytes are not UTF-8; from 1 up. */
function badLine(content: Uint8Array): number {
  let line = 1;
  for (let start = 0; ; line++) {
    const end = content.indexOf(10, start);
    if (end === -1 || !isUtf8(content.subarray(start, end))) return line;
    start = end + 1;
  }
}
