/** Reads the small JSON files of a model or an adapter. Throws errors of the caller's own class. */
import { ConfigError } from '../core/errors.ts';
import { openRegularFile } from './regular-file.ts';
import { isObject } from '../schemas/is-object.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** `not_found`: the file is missing. `invalid`: it is too long, unreadable or not a JSON object. */
type FileProblem = 'not_found' | 'invalid';

export interface ReadFileOptions {
  /** @default 1 MiB */
  readonly maxBytes?: number;
  /** The message ends with it. */
  readonly remedy: string;
  readonly makeError: (message: string, options: { readonly code: FileProblem; readonly cause?: unknown }) => Error;
}

const MAX_BYTES = 2 ** 20;

/** Rejects with what `makeError` makes. */
export async function readJsonObject(path: string, options: ReadFileOptions): Promise<JsonObject> {
  return parsed(path, await readText(path, options), options);
}

/** Returns null for a missing file. */
export async function readJsonObjectIfPresent(path: string, options: ReadFileOptions): Promise<JsonObject | null> {
  const text = await readTextIfPresent(path, options);
  return text === null ? null : parsed(path, text, options);
}

/** Rejects with what `makeError` makes. */
export async function readText(path: string, options: ReadFileOptions): Promise<string> {
  const text = await readTextIfPresent(path, options);
  if (text !== null) return text;
  throw options.makeError(`The file ${path} does not exist; ${options.remedy}`, { code: 'not_found' });
}

/** Returns null for a missing file. A path through a file counts as missing. */
export async function readTextIfPresent(path: string, { maxBytes = MAX_BYTES, remedy, makeError }: ReadFileOptions): Promise<string | null> {
  let size: number;
  try {
    await using file = await openRegularFile(path);
    ({ size } = await file.stat());
    if (size <= maxBytes) {
      const pieces: Buffer[] = [];
      // A file may be longer than its size says, as in /proc, or grow meanwhile.
      for await (const piece of file.createReadStream({ end: maxBytes, autoClose: false })) pieces.push(piece as Buffer);
      const bytes = Buffer.concat(pieces);
      if (bytes.length <= maxBytes) return bytes.toString('utf8');
      size = bytes.length;
    }
  } catch (cause) {
    if (cause instanceof ConfigError) throw makeError(`${cause.message}; ${remedy}`, { code: 'invalid', cause });
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    throw makeError(`Could not read ${path}: ${message}; ${remedy}`, { code: 'invalid', cause });
  }
  throw makeError(`${path} has ${size} bytes, the limit is ${maxBytes}; ${remedy}`, { code: 'invalid' });
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
