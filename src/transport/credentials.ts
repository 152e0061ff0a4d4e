/** Collects the credentials of a request, so that they can be removed from the server's response. */
import { isSecretName } from './redact.ts';
import { percentDecoded } from './secret-spellings.ts';

/** Placeholders for a key that is not needed; hiding these words would damage ordinary text. */
const PLACEHOLDERS = new Set(['', 'EMPTY', 'empty', 'none', 'None', 'null', 'dummy', 'token', 'not-needed', 'no-key']);
/** A text that may be a secret, such as a user name, what follows a scheme such as Bearer, or the value of a variable, is hidden from this length on; a shorter one is likely an ordinary word. */
export const SHORTEST_WORD = 8;
/** A header with an ordinary name may contain a secret: a value of at least this length is treated as one. */
const SHORTEST_HEADER = 16;
/** Matches settings inside a text: `generation.api_key=VALUE`, `openai={api_key: VALUE}`. A match begins only where a word begins, which keeps it linear. */
const ASSIGNMENT = /(?<![\w.-])([\w.-]+)["']?\s*[:=]\s*["']?([^\s"',}\]]+)/g;
/** A header in a word of a command, such as `Authorization: Bearer VALUE`, or `--header=` before it. */
const HEADER = /^(?:--?[\w-]+=)?([\w-]+):(.+)/s;

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

/** Values of settings under secret names, at any depth, also in the texts among them; credentials of their URLs. */
export function settingCredentials(value: unknown): string[] {
  return [...secretsWithin(value, false)].filter(isSecretValue);
}

function* secretsWithin(value: unknown, isSecret: boolean): Generator<string> {
  if (typeof value === 'string') {
    if (isSecret && value.length >= SHORTEST_WORD) yield value;
    if (value.includes('://')) yield* urlCredentials(value);
    for (const [, name, assigned] of value.matchAll(ASSIGNMENT)) if (isSecretName(name!)) yield* secretsWithin(assigned, true);
  } else if (Array.isArray(value)) {
    // The words of a command may be among them.
    for (const [i, item] of value.entries()) yield* secretsWithin(item, isSecret || (i > 0 && isFlagged(value[i - 1], item)));
  } else if (typeof value === 'object' && value !== null)
    for (const [key, item] of Object.entries(value)) yield* secretsWithin(item, isSecret || isSecretName(key));
}

/** What the words of a command hold: settings and headers under secret names, what follows a flag of such a name, and credentials of URLs. */
export function wordCredentials(words: readonly string[]): string[] {
  const headers = words.map((word) => HEADER.exec(word) ?? []).filter(([, name = '']) => isSecretName(name));
  return [...settingCredentials(words), ...headers.flatMap(([, name, value]) => headerCredentials({ [name!]: value!.trim() }))];
}

/** True for the second word of `--api-key VALUE`. */
export function isFlagged(before: unknown, word: unknown): boolean {
  return typeof before === 'string' && /^--?[A-Za-z][\w-]*$/.test(before) && isSecretName(before) && !String(word).startsWith('-');
}

/** Values of a program's variables that are or may be secrets: all but short ones under an ordinary name. */
export function variableCredentials(variables: Readonly<Record<string, string>>): string[] {
  return Object.entries(variables).flatMap(([name, value]) =>
    isSecretValue(value) && (value.length >= SHORTEST_WORD || isSecretName(name)) ? [value, ...urlCredentials(value)] : [],
  );
}
