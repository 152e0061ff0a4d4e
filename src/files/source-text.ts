/** Reads the small text and JSON files of a source, such as those of a model or an adapter. Throws errors of the caller's own class. */
import { ConfigError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import type { ByteFile, ByteSource } from './byte-source.ts';
import { systemText } from './system-text.ts';
import { countText } from '../core/count-text.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** `not_found`: the file is missing. `invalid`: it is too long, unreadable or not a JSON object. */
type FileProblem = 'not_found' | 'invalid';

export interface ReadFileOptions {
  /** @default 1 MiB */
  readonly maxBytes?: number;
  /** The advice at the end of the message. */
  readonly remedy: string;
  /** Throws ConfigError for bytes that are not text. @default UTF-8; a byte order mark is kept, and what is not UTF-8 is replaced */
  readonly decode?: (bytes: Uint8Array, path: string) => string;
  readonly makeError: (message: string, options: { readonly code: FileProblem; readonly cause?: unknown }) => Error;
}

type TextSource = Pick<ByteSource, 'pathOf' | 'open'>;

const MAX_BYTES = 2 ** 20;
/** Keeps a byte order mark, as Node's Buffer does. */
const UTF8 = new TextDecoder('utf-8', { ignoreBOM: true });

/** Rejects with the error that `makeError` makes. */
export async function readSourceJson(source: TextSource, name: string, options: ReadFileOptions): Promise<JsonObject> {
  return parsed(source.pathOf(name), await readSourceText(source, name, options), options);
}

/** Returns null for a missing file. */
export async function readSourceJsonIfPresent(source: TextSource, name: string, options: ReadFileOptions): Promise<JsonObject | null> {
  const text = await readSourceTextIfPresent(source, name, options);
  return text === null ? null : parsed(source.pathOf(name), text, options);
}

/** Rejects with the error that `makeError` makes. */
export async function readSourceText(source: TextSource, name: string, options: ReadFileOptions): Promise<string> {
  const text = await readSourceTextIfPresent(source, name, options);
  if (text !== null) return text;
  throw options.makeError(`The file ${source.pathOf(name)} does not exist; ${options.remedy}`, { code: 'not_found' });
}

/** Returns null for a missing file. A path through a file counts as missing. */
export async function readSourceTextIfPresent(
  source: TextSource,
  name: string,
  { maxBytes = MAX_BYTES, remedy, decode = (bytes) => UTF8.decode(bytes), makeError }: ReadFileOptions,
): Promise<string | null> {
  const path = source.pathOf(name);
  let size: number;
  try {
    const file = await source.open(name);
    try {
      ({ size } = await file.stat());
      if (size <= maxBytes) {
        const bytes = await bytesOf(file, { expected: size, most: maxBytes + 1 });
        if (bytes.length <= maxBytes) return decode(bytes, path);
        size = bytes.length;
      }
    } finally {
      await file.close();
    }
  } catch (cause) {
    if (cause instanceof ConfigError) throw makeError(`${cause.message}; ${remedy}`, { code: 'invalid', cause });
    const { code } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw makeError(`Could not read ${path}: ${systemText(cause)}; ${remedy}`, { code: 'invalid', cause });
  }
  throw makeError(`${path} has ${countText(size)} bytes, the limit is ${countText(maxBytes)}; ${remedy}`, { code: 'invalid' });
}

/** At most `most` bytes. A file may be longer than its size says, as in /proc, or grow meanwhile. */
async function bytesOf(file: ByteFile, { expected, most }: { readonly expected: number; readonly most: number }): Promise<Uint8Array> {
  let bytes = new Uint8Array(Math.min(most, expected + 1));
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(bytes, at, bytes.length - at, at);
    at += bytesRead;
    if (bytesRead === 0 || at === most) return bytes.subarray(0, at);
    if (at < bytes.length) continue;
    const longer = new Uint8Array(Math.min(most, 2 * bytes.length + 4096));
    longer.set(bytes);
    bytes = longer;
  }
}

/** A value of a file, formatted for a message. */
export function shownJson(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 200);
}

function parsed(path: string, text: string, { remedy, makeError }: ReadFileOptions): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw makeError(`${path} is not JSON; ${remedy}`, { code: 'invalid', cause });
  }
  if (!isObject(value)) throw makeError(`${path} is not a JSON object; ${remedy}`, { code: 'invalid' });
  return value;
}
