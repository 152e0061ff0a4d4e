/** Reads the small JSON files of a model or an adapter. */
import { open } from 'node:fs/promises';
import { EngineInputError } from '../engine-errors.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** Throws EngineInputError: `not_found` if the file is missing, `invalid` if it is too long, unreadable or not a JSON object. The message ends with `remedy`. */
export async function readJsonObject(
  path: string,
  { maxBytes = 2 ** 20, remedy }: { readonly maxBytes?: number; readonly remedy: string },
): Promise<JsonObject> {
  const text = await readText(path, { maxBytes, remedy });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new EngineInputError(`${path} is not JSON; ${remedy}`, { cause });
  }
  if (!isJsonObject(value)) throw new EngineInputError(`${path} is not a JSON object; ${remedy}`);
  return value;
}

/** Like readJsonObject, but returns null for a missing file. */
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

/** Throws like readJsonObject. */
export async function readText(
  path: string,
  { maxBytes = 2 ** 20, remedy }: { readonly maxBytes?: number; readonly remedy: string },
): Promise<string> {
  try {
    await using file = await open(path, 'r');
    const { size } = await file.stat();
    if (size > maxBytes) throw new EngineInputError(`${path} has ${size} bytes, the limit is ${maxBytes}; ${remedy}`);
    return await file.readFile('utf8');
  } catch (cause) {
    if (cause instanceof EngineInputError) throw cause;
    throw fileError(path, cause, remedy);
  }
}

/** The file system's error in one line. A path through a file counts as missing. */
export function fileError(path: string, cause: unknown, remedy: string): EngineInputError {
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR') return new EngineInputError(`There is no file ${path}; ${remedy}`, { code: 'not_found', cause });
  return new EngineInputError(`Could not read ${path}: ${message}; ${remedy}`, { cause });
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value of a file, formatted for a message. */
export function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 200);
}
