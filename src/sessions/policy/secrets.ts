/** Finds the secrets of a run, which must not appear in any output or file. */
import { headerCredentials, isSecretValue, settingCredentials, urlCredentials } from '../../transport/credentials.ts';
import type { ResolvedRole } from '../roles/resolve-roles.ts';

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
  return new Set([...ofServers, ...settingCredentials([...settings, ...asked])].filter(isSecretValue));
}
