/** The connection to a training service that a table of the configuration names: `[backend]`, or `[algorithm.teacher]`. */
import { ConfigError, PolicyError } from '../../core/errors.ts';
import { ServiceConnection } from '../../tinker/service/service-connection.ts';
import { TinkerError } from '../../tinker/service/tinker-error.ts';
import { secretsOf } from '../policy/secrets.ts';

export const HOSTED_TINKER = 'https://tinker.thinkingmachines.dev/services/tinker-prod';
/** Sent where a service needs no key: a header cannot be empty. */
const NO_KEY = 'none';

export interface TinkerPlace {
  /** For errors. */
  readonly table: 'backend' | 'algorithm.teacher';
  /** Null: the hosted service. */
  readonly baseUrl: string | null;
  readonly apiKeyVar: string;
  /** The time for which a result is awaited. */
  readonly timeoutS: number;
}

export interface TinkerCaller {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly secrets: Set<string>;
  readonly note: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Throws ConfigError without a key for the hosted service, and for a refused key; PolicyError if the service does not answer. */
export async function connectTinker(place: TinkerPlace, { variables, secrets, note, signal }: TinkerCaller): Promise<ServiceConnection> {
  const { table, baseUrl, apiKeyVar, timeoutS } = place;
  const given = variables[apiKeyVar];
  if (!given && baseUrl === null)
    throw new ConfigError(
      `The environment variable ${apiKeyVar} holds no API key of the hosted Tinker; set it, or set ${table}.base_url to a server of your own, such as vf-serve tinker or SkyRL`,
    );
  if (given) secrets.add(given);
  const url = baseUrl ?? HOSTED_TINKER;
  for (const secret of secretsOf({ servers: [{ apiKey: null, headers: {}, baseUrls: [url] }] })) secrets.add(secret);
  const waits = { resultMs: timeoutS * 1000, resultSetting: `${table}.timeout_s` };
  try {
    return await ServiceConnection.open({ baseUrl: url, apiKey: given || NO_KEY, ...waits, onNotice: note }, signal);
  } catch (cause) {
    if (!(cause instanceof TinkerError)) throw cause;
    const { message, status } = cause;
    if (status === 401 || status === 403) throw new ConfigError(`${message} in ${apiKeyVar}`, { cause });
    throw new PolicyError(`${message}; check ${table}.base_url, and that the service runs`, { cause, ...(status === null ? {} : { status }) });
  }
}
