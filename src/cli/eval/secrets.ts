/** Which values of a run are secrets, so that no line and no file may hold them. */
import { headerCredentials, isSecretValue, urlCredentials } from '../../transport/credentials.ts';
import { isSecretName } from '../../transport/redact.ts';
import type { PolicyTarget } from './policy-target.ts';
import { isObject } from '../../schemas/is-object.ts';

/** A secret-looking argument shorter than this is more likely a word. */
const SHORTEST_ARGUMENT = 8;

/** `settings` are tables in which a name tells a secret: arguments of the environment, further fields of the request. */
export function secretsOf(target: PolicyTarget, ...settings: readonly Readonly<Record<string, unknown>>[]): ReadonlySet<string> {
  const ofPolicy =
    target.kind === 'endpoint' ? [target.apiKey ?? '', ...headerCredentials(target.headers), ...target.baseUrls.flatMap(urlCredentials)] : [];
  return new Set([...ofPolicy, ...settings.flatMap((table) => [...argumentSecrets(table, false)])].filter(isSecretValue));
}

function* argumentSecrets(value: unknown, isSecret: boolean): Generator<string> {
  if (typeof value === 'string') {
    if (isSecret && value.length >= SHORTEST_ARGUMENT) yield value;
    if (value.includes('://')) yield* urlCredentials(value);
  } else if (Array.isArray(value)) for (const item of value) yield* argumentSecrets(item, isSecret);
  else if (isObject(value)) for (const [key, item] of Object.entries(value)) yield* argumentSecrets(item, isSecret || isSecretName(key));
}
