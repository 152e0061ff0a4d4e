import { getSystemErrorMessage } from 'node:util';
import { ConfigError } from '../core/errors.ts';

const CALLS = ['mkdir', 'mkdtemp', 'rename'];

/** A folder that the system does not let a command make, as what it is: a flag that names the wrong place. Any other error as it was. */
export function placeError(error: unknown, { flag, path }: { readonly flag: string; readonly path: string }): unknown {
  const { errno, code, syscall } = (error instanceof Error ? error : {}) as NodeJS.ErrnoException;
  if (typeof errno !== 'number' || !CALLS.includes(syscall ?? '') || code === 'ENOSPC') return error;
  return new ConfigError(`Expected ${flag} to name a place where a folder can be made, got ${path}: ${getSystemErrorMessage(errno)} (${code})`, {
    cause: error,
  });
}
