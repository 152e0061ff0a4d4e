import { getSystemErrorMessage } from 'node:util';

/** What the system says of an error that it raised, such as `no such file or directory (ENOENT)`; null for others: zlib's have numbers too, with other meanings. */
export function errnoText(error: unknown, path?: string): string | null {
  const { errno, code } = (error ?? {}) as NodeJS.ErrnoException;
  if (typeof errno !== 'number' || errno >= 0 || code?.startsWith('E') !== true) return null;
  return `${getSystemErrorMessage(errno)}${path === undefined ? '' : `: ${path}`} (${code})`;
}
