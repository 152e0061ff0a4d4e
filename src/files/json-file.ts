/**
 * Reads whole JSON files that people, other programs or earlier versions wrote. A file is measured before it is parsed: its size before it is read, its depth, lists and
 * keys before they are made. Files of many lines have `json-lines.ts` and `records.ts`, those of a model `source-text.ts`.
 */
import { ConfigError } from '../core/errors.ts';
import { jsonExcess } from '../core/json-bounds.ts';
import { readExactJson } from '../core/read-json.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import { checkSize, DOCUMENT_BYTES, openRegularFile, readRegularBytesSync } from './regular-file.ts';
import { systemText } from './system-text.ts';
import { decodeText } from './user-text.ts';

type Fields = Readonly<Record<string, unknown>>;

/** The index of a model of many experts has 100,000 keys. */
const LIMITS = { maxParts: 2 ** 20, maxValues: 2 ** 22, maxKeys: 2 ** 19 };

/** The file's value, with every digit of its numbers. Throws ConfigError, in one line that names the file. */
export function readJsonFileSync(path: string): unknown {
  return parseJson(readTextSync(path), path);
}

/** The fields of a file; null if it is missing, no regular file, too large, or no JSON object. */
export function jsonObjectAt(path: string): Fields | null {
  try {
    const value = readJsonFileSync(path);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** The fields of a file that a run wrote; none if it holds anything but an object. Throws as `readJsonFileSync` does. */
export function jsonFieldsAt(path: string): Fields {
  return fieldsOf(readJsonFileSync(path));
}

/** Throws ConfigError, in one line. @param where names the text in messages */
export function parseJson(text: string, where: string): unknown {
  const excess = jsonExcess(text, LIMITS);
  if (excess !== null) throw new ConfigError(`${where} ${excess}. Is it the right file?`);
  try {
    return readExactJson(text);
  } catch (cause) {
    throw new ConfigError(`${where} is not JSON: ${(cause as Error).message}`, { cause });
  }
}

/** The text of a file of at most 16 MiB. Rejects with ConfigError if it does not exist, is not a file or is larger. */
export async function readTextFile(path: string): Promise<string> {
  try {
    await using file = await openRegularFile(path);
    checkSize(path, (await file.stat()).size, DOCUMENT_BYTES);
    return decodeText(await file.readFile(), path);
  } catch (cause) {
    throw readingError(path, cause);
  }
}

function readTextSync(path: string): string {
  try {
    return decodeText(readRegularBytesSync(path, DOCUMENT_BYTES), path);
  } catch (cause) {
    throw readingError(path, cause);
  }
}

function readingError(path: string, cause: unknown): ConfigError {
  if (cause instanceof ConfigError) return cause;
  const { code } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT') return new ConfigError(`The file ${path} does not exist`, { cause });
  if (code === 'EISDIR') return new ConfigError(`${path} is a folder, not a file`, { cause });
  return new ConfigError(`Could not read ${path}: ${systemText(cause)}`, { cause });
}
