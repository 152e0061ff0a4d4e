/** Reads what may be missing. Only what does not exist is missing: a file or folder that cannot be read is an error that names it, because its contents would be lost silently. */
import { readdir } from 'node:fs/promises';
import { ConfigError, VfError } from '../core/errors.ts';
import { systemText } from './system-text.ts';

/** What `read` gives, or null if nothing is at the path. Rejects with an error of the package, else with ConfigError. */
export async function ifThere<T>(path: string, read: (path: string) => Promise<T>): Promise<T | null> {
  try {
    return await read(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null;
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`Cannot read ${path}: ${systemText(cause)}`, { cause });
  }
}

/** The names in a folder; none if it does not exist. */
export async function namesIn(folder: string): Promise<readonly string[]> {
  return (await ifThere(folder, (path) => readdir(path))) ?? [];
}
