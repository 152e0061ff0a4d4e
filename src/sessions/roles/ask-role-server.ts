/** Asks the server of a role, once and before the first rollout, whether it answers and which models it serves. */
import { ConfigError, ModelError, thrownText } from '../../core/errors.ts';
import { errorFields } from '../../schemas/error-fields.ts';
import { creditText, isOutOfCredit } from '../../schemas/out-of-credit.ts';
import { pageText, refusedBy } from '../../schemas/key-refusal.ts';
import { HttpEndpoint, httpErrorText } from '../../transport/http-endpoint.ts';
import { redactUrl } from '../../transport/redact.ts';
import { ROLE_FLAG, type SettingNames } from '../setting-names.ts';
import type { RoleEndpoint } from './resolve-roles.ts';
import { fieldsOf } from '../../schemas/is-object.ts';
import { jsonOrNull } from '../../schemas/json-or-null.ts';
import { firstNames } from '../../core/first-names.ts';

/** A running server lists its models at once. */
const DEADLINE_MS = 5_000;

export interface RoleServerAnswer {
  readonly model: string;
  /** Notice for the user before the run; null for none. */
  readonly notice: string | null;
}

/**
 * Returns the model to request. Throws ModelError if a server does not answer or rejects the key, ConfigError if no model is named and the
 * server does not serve exactly one.
 */
export async function askRoleServer(
  role: string,
  endpoint: RoleEndpoint,
  signal: AbortSignal,
  names: Pick<SettingNames, 'role'> = ROLE_FLAG,
): Promise<RoleServerAnswer> {
  const lists = await Promise.all(endpoint.baseUrls.map((baseUrl) => modelsAt(role, baseUrl, endpoint, signal)));
  const url = redactUrl(endpoint.baseUrls[0]!);
  const served = lists[0] ?? null;
  if (endpoint.model === null) {
    if (served?.length === 1) return { model: served[0]!, notice: null };
    const what =
      served === null
        ? 'does not list its models'
        : served.length === 0
          ? 'serves no model'
          : `serves ${served.length} models (${firstNames(served, 5)})`;
    throw new ConfigError(`The server of role ${role} at ${url} ${what}. Name the model: ${names.role(role, `MODEL@${url}`)}.`);
  }
  const isListed = served === null || served.includes(endpoint.model);
  const notice = isListed
    ? null
    : `The server of role ${role} at ${url} does not list ${endpoint.model} among its models (${firstNames(served, 5)}).`;
  return { model: endpoint.model, notice };
}

/** Ids of the served models; null if the server does not list them, which is optional. */
async function modelsAt(
  role: string,
  baseUrl: string,
  { apiKey, keyVariable, headers }: RoleEndpoint,
  signal: AbortSignal,
): Promise<readonly string[] | null> {
  const endpoint = new HttpEndpoint({
    baseUrl,
    headers: apiKey === null ? headers : { authorization: `Bearer ${apiKey}`, ...headers },
    connections: 1,
    makeError: (message, options) => new ModelError(message, { ...options, role }),
  });
  const url = redactUrl(baseUrl);
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  try {
    const { status, body } = await endpoint.request({ method: 'GET', path: '/models', signal: AbortSignal.any([signal, deadline]) });
    const refused = refusedBy(status, body);
    const said = () => httpErrorText('GET', `${url}/models`, status, body, endpoint.hide);
    if (status !== 401 && isOutOfCredit(status, errorFields(body))) throw new ModelError(`Role ${role}: ${creditText(said())}`, { role, status });
    if (refused === 'page') throw new ModelError(`Role ${role}: ${pageText(said())}`, { role, status });
    if (refused === 'other') throw new ModelError(`The server of role ${role} does not allow the request: ${said()}.`, { role, status });
    if (refused === 'key') {
      const remedy =
        keyVariable === null
          ? `Name the variable that holds the key: api_key_var under [roles.${role}] of a TOML file, or key of an alias in configs/endpoints.toml`
          : `Check $${keyVariable}`;
      throw new ModelError(`The server of role ${role} at ${url} rejected the API key (status ${status}). ${remedy}.`, { role, status });
    }
    return status === 200 ? idsOf(body.toString('utf8')) : null;
  } catch (cause) {
    if (signal.aborted || (cause instanceof ModelError && cause.status !== null)) throw cause;
    const why = deadline.aborted ? `no answer in ${DEADLINE_MS / 1000} s` : networkText(cause);
    throw new ModelError(`The server of role ${role} at ${url} cannot be reached: ${why}. Start it, or correct the URL.`, { role, cause });
  } finally {
    await endpoint.close();
  }
}

function idsOf(text: string): readonly string[] | null {
  const { data } = fieldsOf(jsonOrNull(text));
  // Not a list of models, but the server may still answer requests.
  if (!Array.isArray(data)) return null;
  return data.map((card) => fieldsOf(card)['id']).filter((id) => typeof id === 'string');
}

/** The system's own message if there is one, without the transport's text around it. */
function networkText(error: unknown): string {
  const inner = error instanceof Error ? error.cause : undefined;
  return inner instanceof Error && inner.message !== '' ? inner.message : thrownText(error);
}
