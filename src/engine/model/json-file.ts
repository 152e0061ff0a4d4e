/** Reads the small JSON files of a model or an adapter; what is wrong with one is an EngineInputError. */
import * as files from '../../files/json-object.ts';
import { ConfigError } from '../../core/errors.ts';
import { EngineInputError } from '../engine-errors.ts';

export { isJsonObject, type JsonObject, shownJson as shown } from '../../files/json-object.ts';

type Options = Omit<files.ReadFileOptions, 'makeError'>;

const makeError: files.ReadFileOptions['makeError'] = (message, options) => new EngineInputError(message, options);

/** Throws EngineInputError: `not_found` where there is no such file, `invalid` where it is too long, unreadable or no JSON object. `remedy` ends the message. */
export function readJsonObject(path: string, options: Options): Promise<files.JsonObject> {
  return files.readJsonObject(path, { ...options, makeError });
}

/** Null in place of `not_found`. */
export function readJsonObjectIfPresent(path: string, options: Options): Promise<files.JsonObject | null> {
  return files.readJsonObjectIfPresent(path, { ...options, makeError });
}

/** Throws as readJsonObject does. */
export function readText(path: string, options: Options): Promise<string> {
  return files.readText(path, { ...options, makeError });
}

/** What the file system said, in one line. A path through something that is no directory leads nowhere either. */
export function fileError(path: string, cause: unknown, remedy: string): EngineInputError {
  if (cause instanceof ConfigError) return new EngineInputError(`${cause.message}; ${remedy}`, { cause });
  const { code, message } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return new EngineInputError(`Expected a file ${path}, found none; ${remedy}`, { code: 'not_found', cause });
  return new EngineInputError(`Expected to read ${path}, got ${message}; ${remedy}`, { cause });
}
