/** Turns system errors about paths from the command line into ConfigErrors. */
import { resolve } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { isDiskFull } from './disk-full.ts';
import { systemText } from './system-text.ts';

const MAKING = ['mkdir', 'mkdtemp', 'rename'];

/** ConfigError if a folder that the user named cannot be created. Returns any other error unchanged. */
export function placeError(error: unknown, { flag, path }: { readonly flag?: string; readonly path: string }): unknown {
  const { errno, syscall } = (error instanceof Error ? error : {}) as NodeJS.ErrnoException;
  if (typeof errno !== 'number' || !MAKING.includes(syscall ?? '') || isDiskFull(error)) return error;
  return new ConfigError(`Cannot create the folder ${path}${flag === undefined ? '' : ` (${flag})`}: ${systemText(error)}`, {
    cause: error,
  });
}

/** ConfigError if a file that the user named cannot be read. Returns any other error unchanged. */
export function readingError(error: unknown, { what, path }: { readonly what: string; readonly path: string | undefined }): unknown {
  const { errno, syscall, path: refused = syscall === 'read' ? path : undefined } = (error instanceof Error ? error : {}) as NodeJS.ErrnoException;
  if (typeof errno !== 'number' || path === undefined || refused === undefined || resolve(refused) !== resolve(path)) return error;
  return new ConfigError(`Cannot read ${what} ${path}: ${systemText(error)}`, { cause: error });
}
