/** Reads the small JSON files of a model or an adapter. */
import { ConfigError } from '../../core/errors.ts';
import { openRegularFile } from '../../files/regular-file.ts';
import { EngineInputError } from '../engine-errors.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** Throws EngineInputError: `not_found` where there is no such file, `invalid` where it is too long, unreadable or no JSON object. `remedy` ends the message. */
export async function readJsonObject(
  path: string,
  { maxBytes = 2 ** 20, remedy }: { readonly maxBytes?: number; readonly remedy: string },
): Promise<JsonObject> {
  const text = await readText(path, { maxBytes, remedy });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new EngineInputError(`Expected JSON in ${path}, got something else; ${remedy}`, { cause });
  }
  if (!isJsonObject(value)) throw new EngineInputError(`Expected a JSON object in ${path}, got another value; ${remedy}`);
  return value;
}

/** Null in place of `not_found`. */
export async function readJsonObjectIfPresent(
  path: string,
  options: { readonly maxBytes?: number; readonly remedy: string },
): Promise<JsonObject | null> {
  try {
    return await readJsonObject(path, options);
  } catch (error) {
    if (error instanceof EngineInputError && error.code === 'not_found') return null;
    throw error;
  }
}

/** Throws as readJsonObject does. */
export async function readText(
  path: string,
  { maxBytes = 2 ** 20, remedy }: { readonly maxBytes?: number; readonly remedy: string },
): Promise<string> {
  try {
    await using file = await openRegularFile(path);
    const tooLong = (size: number) => new EngineInputError(`Expected at most ${maxBytes} bytes in ${path}, got ${size}; ${remedy}`);
    const { size } = await file.stat();
    if (size > maxBytes) throw tooLong(size);
    const pieces: Buffer[] = [];
    // A file may hold more than it says, as those of /proc do, or grow meanwhile.
    for await (const piece of file.createReadStream({ end: maxBytes, autoClose: false })) pieces.push(piece as Buffer);
    const bytes = Buffer.concat(pieces);
    if (bytes.length > maxBytes) throw tooLong(bytes.length);
    return bytes.toString('utf8');
  } catch (cause) {
    if (cause instanceof EngineInputError) throw cause;
    throw fileError(path, cause, remedy);
  }
}

/** What the file system said, in one line. A path through something that is no directory leads nowhere either. */
export function fileError(path: string, cause: unknown, remedy: string): EngineInputError {
  if (cause instanceof ConfigError) return new EngineInputError(`${cause.message}; ${remedy}`, { cause });
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return new EngineInputError(`Expected a file ${path}, found none; ${remedy}`, { code: 'not_found', cause });
  return new EngineInputError(`Expected to read ${path}, got ${message}; ${remedy}`, { cause });
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value of a file as it may stand in a message. */
export function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 200);
}
