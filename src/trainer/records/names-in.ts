import { readdir } from 'node:fs/promises';
import { ResultsError } from '../../core/errors.ts';

/** The names in a folder; none if it is missing. Throws ResultsError if it cannot be read. */
export function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return [];
    throw new ResultsError(`Cannot read ${directory}: ${cause.message}`, { cause });
  });
}
