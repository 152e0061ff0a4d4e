import { getSystemErrorMessage } from 'node:util';
import { thrownText } from '../core/errors.ts';

/** What the system says of a path, without Node's names of its calls: `name too long (ENAMETOOLONG)`. For a message that names the path; other errors keep their message. */
export function systemText(thrown: unknown): string {
  const { errno, code } = (thrown instanceof Error ? thrown : {}) as NodeJS.ErrnoException;
  if (code === 'EISDIR') return 'it is a folder';
  // Errors of zlib have numbers of their own.
  return typeof errno === 'number' && code?.startsWith('E') === true ? `${getSystemErrorMessage(errno)} (${code})` : thrownText(thrown);
}
