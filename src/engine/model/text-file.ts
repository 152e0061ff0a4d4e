import type { ReadFileOptions } from '../../files/source-text.ts';
import { readText as readAnyText } from '../../files/text-file.ts';
import { EngineInputError } from '../engine-errors.ts';

/** The text of a file by its path. Throws EngineInputError: `not_found` if it is missing, `invalid` if it is too long or unreadable. */
export function readText(path: string, options: Omit<ReadFileOptions, 'makeError'>): Promise<string> {
  return readAnyText(path, { ...options, makeError: (message, about) => new EngineInputError(message, about) });
}
