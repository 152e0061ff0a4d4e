/** Which values of a run are secrets, so that no line and no file may hold them. */
import type { PolicyTarget } from './policy-target.ts';
import { isObject } from './settings.ts';

const SECRET_NAME = /(^|[-_])(api[-_]?key|key|token|secret|passw(or)?d|authorization|auth|cookie|credentials?|signature)$/i;
/** What people write where a key is asked for and none is needed; replacing these words would shred ordinary text. */
const PLACEHOLDERS = new Set(['EMPTY', 'empty', 'none', 'None', 'null', 'dummy', 'token', 'not-needed', 'no-key']);
/** A secret-looking argument shorter than this is more likely a word. */
const SHORTEST_ARGUMENT = 8;
/** A header with an ordinary name may carry a secret; one this long is treated as one. */
const SHORTEST_HEADER = 16;

export function secretsOf(target: PolicyTarget, environmentArgs: Readonly<Record<string, unknown>>): ReadonlySet<string> {
  const secrets = new Set<string>();
  if (target.kind === 'endpoint') {
    if (target.apiKey !== null) secrets.add(target.apiKey);
    for (const [name, value] of Object.entries(target.headers)) addHeader(secrets, name, value);
    for (const baseUrl of target.baseUrls) addUrl(secrets, baseUrl);
  }
  addArguments(secrets, environmentArgs, '');
  for (const placeholder of PLACEHOLDERS) secrets.delete(placeholder);
  secrets.delete('');
  return secrets;
}

function addHeader(secrets: Set<string>, name: string, value: string): void {
  if (!SECRET_NAME.test(name) && value.length < SHORTEST_HEADER) return;
  secrets.add(value);
  // "Bearer abc": a server that repeats the credential alone must not get past either.
  const credential = value.split(' ').at(-1)!;
  if (credential.length >= SHORTEST_ARGUMENT) secrets.add(credential);
}

function addUrl(secrets: Set<string>, text: string): void {
  const url = URL.parse(text);
  if (url === null) return;
  if (url.password !== '') {
    secrets.add(decoded(url.password));
    secrets.add(Buffer.from(`${decoded(url.username)}:${decoded(url.password)}`).toString('base64'));
  } else if (url.username.length >= SHORTEST_ARGUMENT) secrets.add(decoded(url.username));
  for (const [name, value] of url.searchParams) if (SECRET_NAME.test(name)) secrets.add(value);
}

function addArguments(secrets: Set<string>, value: unknown, name: string): void {
  if (typeof value === 'string') {
    if (SECRET_NAME.test(snakeCase(name)) && value.length >= SHORTEST_ARGUMENT) secrets.add(value);
    if (value.includes('://')) addUrl(secrets, value);
  } else if (Array.isArray(value)) for (const item of value) addArguments(secrets, item, name);
  else if (isObject(value)) for (const [key, item] of Object.entries(value)) addArguments(secrets, item, key);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // A stray percent sign: the text stands for itself.
    return text;
  }
}

function snakeCase(name: string): string {
  return name.replace(/([a-z0-9])([A-Z])/g, '$1_$2');
}
