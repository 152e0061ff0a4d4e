/** Finds the secrets of a run, which must not appear in any output or file. */
import { headerCredentials, isSecretValue, urlCredentials } from '../../transport/credentials.ts';
import { isSecretName } from '../../transport/redact.ts';
import type { ResolvedRole } from '../roles/resolve-roles.ts';
import { isObject } from '../../schemas/is-object.ts';

/** Shorter values under a secret-looking name are probably ordinary words. */
const SHORTEST_ARGUMENT = 8;
/** Matches settings of pipelines inside an argument: `generation.api_key=VALUE`, `openai={api_key: VALUE}`. A match begins only where a word begins, which keeps it linear. */
const ASSIGNMENT = /(?<![\w.-])([\w.-]+)["']?\s*[:=]\s*["']?([^\s"',}\]]+)/g;

/** The sources of a run's secrets; each part is optional. */
export interface SecretSources {
  readonly servers?: readonly {
    readonly apiKey: string | null;
    readonly headers: Readonly<Record<string, string>>;
    readonly baseUrls: readonly string[];
  }[];
  readonly roles?: readonly Pick<ResolvedRole, 'player' | 'asked'>[];
  /** Tables in which names such as api_key mark secrets: arguments of the environment, further request fields. */
  readonly settings?: readonly Readonly<Record<string, unknown>>[];
}

/** Values that must not appear in any output or file. */
export function secretsOf({ servers = [], roles = [], settings = [] }: SecretSources): ReadonlySet<string> {
  const players = roles.flatMap(({ player }) => (player.kind === 'endpoint' ? [player] : []));
  const ofServers = [...servers, ...players].flatMap(({ apiKey, headers, baseUrls }) => [
    apiKey ?? '',
    ...headerCredentials(headers),
    ...baseUrls.flatMap(urlCredentials),
  ]);
  const asked = roles.map(({ asked: fields }) => fields?.sampling.extra ?? {});
  return new Set([...ofServers, ...[...settings, ...asked].flatMap((table) => [...argumentSecrets(table, false)])].filter(isSecretValue));
}

function* argumentSecrets(value: unknown, isSecret: boolean): Generator<string> {
  if (typeof value === 'string') {
    if (isSecret && value.length >= SHORTEST_ARGUMENT) yield value;
    if (value.includes('://')) yield* urlCredentials(value);
    for (const [, name, assigned] of value.matchAll(ASSIGNMENT)) if (isSecretName(name!)) yield* argumentSecrets(assigned, true);
  } else if (Array.isArray(value)) for (const item of value) yield* argumentSecrets(item, isSecret);
  else if (isObject(value)) for (const [key, item] of Object.entries(value)) yield* argumentSecrets(item, isSecret || isSecretName(key));
}
