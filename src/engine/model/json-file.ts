/** Reads the small JSON files of a model or an adapter. Every fault in one is an EngineInputError. */
import type { ByteSource } from '../../files/byte-source.ts';
import * as files from '../../files/source-text.ts';
import { ConfigError } from '../../core/errors.ts';
import { EngineInputError } from '../engine-errors.ts';
import { systemText } from '../../files/system-text.ts';

export { type JsonObject, shownJson as shown } from '../../files/source-text.ts';

type Options = Omit<files.ReadFileOptions, 'makeError'>;

const makeError: files.ReadFileOptions['makeError'] = (message, options) => new EngineInputError(message, options);

/** Throws EngineInputError: `not_found` if the file is missing, `invalid` if it is too long, unreadable or not a JSON object. The message ends with `remedy`. */
export function readJsonObject(source: ByteSource, name: string, options: Options): Promise<files.JsonObject> {
  return files.readSourceJson(source, name, { ...options, makeError });
}

/** Like readJsonObject, but returns null for a missing file. */
export function readJsonObjectIfPresent(source: ByteSource, name: string, options: Options): Promise<files.JsonObject | null> {
  return files.readSourceJsonIfPresent(source, name, { ...options, makeError });
}

/** The file system's error in one line. A path through a file counts as missing. */
export function fileError(path: string, cause: unknown, remedy: string): EngineInputError {
  if (cause instanceof ConfigError) return new EngineInputError(`${cause.message}; ${remedy}`, { cause });
  const { code } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR')
    return new EngineInputError(`The file ${path} does not exist; ${remedy}`, { code: 'not_found', cause });
  return new EngineInputError(`Could not read ${path}: ${systemText(cause)}; ${remedy}`, { cause });
}
