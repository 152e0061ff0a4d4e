/** Which parts of a request are credentials, so that whatever a server says back can be freed of them. */
import { isSecretName } from './redact.ts';

/** What people write where a key is asked for and none is needed; hiding these words would shred ordinary text. */
const PLACEHOLDERS = new Set(['', 'EMPTY', 'empty', 'none', 'None', 'null', 'dummy', 'token', 'not-needed', 'no-key']);
/** A user name, or a word behind a scheme such as Bearer, shorter than this is more likely a word. */
const SHORTEST_WORD = 8;
/** A header with an ordinary name may carry a secret; one this long is treated as one. */
const SHORTEST_HEADER = 16;

/** False for a word that stands where a secret could, and is none. */
export function isSecretValue(value: string): boolean {
  return !PLACEHOLDERS.has(value);
}

/** Values of headers that are or may be secrets, with and without their scheme. */
export function headerCredentials(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers)
    .filter(([name, value]) => isSecretName(name) || value.length >= SHORTEST_HEADER)
    .flatMap(([, value]) => {
      // "Bearer abc": a server that repeats the credential alone must not get past either.
      const word = value.split(' ').at(-1)!;
      return word.length >= SHORTEST_WORD ? [value, word] : [value];
    })
    .filter((value) => isSecretValue(value.split(' ').at(-1)!));
}

/** Password, long user name, the pair as Basic sends it, and query values under secret names. */
export function urlCredentials(text: string): string[] {
  const url = URL.parse(text);
  if (url === null) return [];
  const [user, password] = [decoded(url.username), decoded(url.password)];
  return [
    ...(password === '' ? [] : [password, Buffer.from(`${user}:${password}`).toString('base64')]),
    ...(password === '' && user.length >= SHORTEST_WORD ? [user] : []),
    ...[...url.searchParams].filter(([name]) => isSecretName(name)).map(([, value]) => value),
  ].filter(isSecretValue);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A stray percent sign: the text stands for itself.
    return text;
  }
}
