import { thrownText } from '../core/errors.ts';

/** What the system says of a path, without Node's names of its calls: `name too long (ENAMETOOLONG)`. For a message that names the path; other errors keep their message. */
export function systemText(thrown: unknown): string {
  const text = thrownText(thrown);
  // Read from the message, because browsers run this too and have no table of the system's errors.
  const [, code, said] = /^(E[A-Z0-9]+): ([^,]+), [a-z]+(?: '.*)?$/s.exec(text) ?? [];
  if (code === 'EISDIR') return 'it is a folder';
  return code === undefined ? text : `${said} (${code})`;
}
