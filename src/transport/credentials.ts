/** Collects the credentials of a request, so that they can be removed from the server's response. */
import { isSecretName } from './redact.ts';
import { percentDecoded } from './secret-spellings.ts';

/** Placeholders for a key that is not needed; hiding these words would damage ordinary text. */
const PLACEHOLDERS = new Set(['', 'EMPTY', 'empty', 'none', 'None', 'null', 'dummy', 'token', 'not-needed', 'no-key']);
/** A user name, or the text after a scheme such as Bearer, is hidden from this length on; a shorter one is likely an ordinary word. */
const SHORTEST_WORD = 8;
/** A header with an ordinary name may contain a secret: a value of at least this length is treated as one. */
const SHORTEST_HEADER = 16;

/** False for a placeholder such as `EMPTY`. */
export function isSecretValue(value: string): boolean {
  return !PLACEHOLDERS.has(value);
}

/** Header values that are or may be secrets, with and without their scheme. */
export function headerCredentials(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers)
    .filter(([name, value]) => isSecretName(name) || value.length >= SHORTEST_HEADER)
    .flatMap(([, value]) => {
      // A server may repeat only the credential of "Bearer abc".
      const word = value.split(' ').at(-1)!;
      return word.length >= SHORTEST_WORD ? [value, word] : [value];
    })
    .filter((value) => isSecretValue(value.split(' ').at(-1)!));
}

/** The password, a long user name, the pair as Basic authentication sends it, and query values under secret names. */
export function urlCredentials(text: string): string[] {
  const url = URL.parse(text);
  if (url === null) return [];
  const [user, password] = [percentDecoded(url.username), percentDecoded(url.password)];
  return [
    ...(password === '' ? [] : [password, Buffer.from(`${user}:${password}`).toString('base64')]),
    ...(password === '' && user.length >= SHORTEST_WORD ? [user] : []),
    ...[...url.searchParams].filter(([name]) => isSecretName(name)).map(([, value]) => value),
  ].filter(isSecretValue);
}
