/** Which values of a run are secrets, so that no line and no file may hold them. */
import { headerCredentials, isSecretName, isSecretValue, urlCredentials } from '../../transport/credentials.ts';
import type { PolicyTarget } from './policy-target.ts';
import { isObject } from './settings.ts';

/** A secret-looking argument shorter than this is more likely a word. */
const SHORTEST_ARGUMENT = 8;

export function secretsOf(target: PolicyTarget, environmentArgs: Readonly<Record<string, unknown>>): ReadonlySet<string> {
  const ofPolicy =
    target.kind === 'endpoint' ? [target.apiKey ?? '', ...headerCredentials(target.headers), ...target.baseUrls.flatMap(urlCredentials)] : [];
  return new Set([...ofPolicy, ...argumentSecrets(environmentArgs, '')].filter(isSecretValue));
}

function* argumentSecrets(value: unknown, name: string): Generator<string> {
  if (typeof value === 'string') {
    if (isSecretName(name) && value.length >= SHORTEST_ARGUMENT) yield value;
    if (value.includes('://')) yield* urlCredentials(value);
  } else if (Array.isArray(value)) for (const item of value) yield* argumentSecrets(item, name);
  else if (isObject(value)) for (const [key, item] of Object.entries(value)) yield* argumentSecrets(item, key);
}
