/** What the system refuses, as what it is: a place that the command line named and that is of no use. */
import { resolve } from 'node:path';
import { getSystemErrorMessage } from 'node:util';
import { ConfigError } from '../core/errors.ts';

const MAKING = ['mkdir', 'mkdtemp', 'rename'];

/** A folder that the system does not let a command make, as what it is: a flag that names the wrong place. Any other error as it was. */
export function placeError(error: unknown, { flag, path }: { readonly flag: string; readonly path: string }): unknown {
  const { errno, code, syscall } = (error instanceof Error ? error : {}) as NodeJS.ErrnoException;
  if (typeof errno !== 'number' || !MAKING.includes(syscall ?? '') || code === 'ENOSPC') return error;
  return new ConfigError(`Expected ${flag} to name a place where a folder can be made, got ${path}: ${getSystemErrorMessage(errno)} (${code})`, {
    cause: error,
  });
}

/** The same for a file that the user named and may not read. */
export function readingError(error: unknown, { what, path }: { readonly what: string; readonly path: string | undefined }): unknown {
  const { errno, code, path: refused } = (error instanceof Error ? error : {}) as NodeJS.ErrnoException;
  if (typeof errno !== 'number' || path === undefined || refused === undefined || resolve(refused) !== resolve(path)) return error;
  return new ConfigError(`Expected to read ${what} ${path}: ${getSystemErrorMessage(errno)} (${code})`, { cause: error });
}
