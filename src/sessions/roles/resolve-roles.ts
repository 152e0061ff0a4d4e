/**
 * Decides which model plays each role of an environment, from its declarations and the user's settings. Reads the endpoint registry and environment
 * variables; makes no connections.
 */
import { settingRemedy } from '../environment/environment-file.ts';
import type { StreamSetting } from '../../clients/policy-client.ts';
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import type { Model, RoleDeclaration, RoleDeclarations } from '../../core/model.ts';
import { ASKED_WITH } from '../../schemas/merge-role-tables.ts';
import type { RoleTable, RoleTables } from '../../schemas/roles-config.ts';
import { redactUrl } from '../../transport/redact.ts';
import { type Endpoint, type EndpointRegistry, readEndpoints, variableName } from '../policy/endpoints.ts';
import { isLoopback } from '../policy/policy-target.ts';
import { PROVIDERS } from '../policy/providers.ts';
import { type ReadSampling, readOwnSampling, type RequestTable } from '../policy/sampling.ts';
import { ROLE_FLAG, type SettingNames } from '../setting-names.ts';
import { checkRoleTables } from './check-role-tables.ts';
import { withoutTrailingSlashes } from '../../core/server-url.ts';

/** A server that plays a role. */
export interface RoleEndpoint {
  readonly kind: 'endpoint';
  readonly baseUrls: readonly string[];
  /** Null for the server's only model. */
  readonly model: string | null;
  readonly apiKey: string | null;
  readonly keyVariable: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** The alias in the registry; null for a URL. */
  readonly alias: string | null;
  /** @default 'auto' */
  readonly stream?: StreamSetting;
  /** What the alias is asked with. @default nothing */
  readonly request?: RequestTable;
}

type RolePlayer = RoleEndpoint | { readonly kind: 'builtin'; readonly model: Model } | { readonly kind: 'policy' };

export interface ResolvedRole {
  readonly role: string;
  readonly about: string;
  readonly player: RolePlayer;
  /** True if the user did not choose a model for it. */
  readonly isDefault: boolean;
  /** Limits and cache from the user's settings. */
  readonly table: RoleTable;
  /** What its requests have, from the user's settings and the alias. */
  readonly asked: ReadSampling | null;
}

export interface ResolveRolesOptions {
  /** The endpoint registry; null for the default file. @default null */
  readonly endpointsPath?: string | null;
  /** The caller's names for a role's model, for errors. @default as on the command line */
  readonly names?: Pick<SettingNames, 'role'>;
  readonly variables: Readonly<Record<string, string | undefined>>;
  /** The policy's server: a role at the same origin gets its key and headers, unless it has a key of its own. @default none */
  readonly policyServer?: Pick<RoleEndpoint, 'baseUrls' | 'apiKey' | 'keyVariable' | 'headers'> | null;
}

/** In the order of the declarations. Throws a one-line ConfigError for an unknown role, a role without a model, or a model that cannot be used. */
export async function resolveRoles(
  declarations: RoleDeclarations,
  tables: RoleTables,
  options: ResolveRolesOptions,
): Promise<readonly ResolvedRole[]> {
  // Read even if no role needs it; otherwise a misspelled path would go unnoticed.
  if ((options.endpointsPath ?? null) !== null) await readEndpoints(options.endpointsPath!);
  const known = Object.keys(declarations);
  const unknown = Object.keys(tables).find((role) => !known.includes(role));
  if (unknown !== undefined) throw unknownRole(unknown, known);
  checkRoleTables(tables, 'the roles of this run');
  return Promise.all(
    Object.entries(declarations).map(async ([role, declaration]) => {
      const table = tables[role] ?? {};
      const isDefault = table.use === undefined && table.base_url === undefined;
      const player = await playerOf(role, declaration, table, options);
      assertFits(role, table, player);
      return { role, about: declaration.about, player, isDefault, table, asked: askedFor(role, player, table) };
    }),
  );
}

async function playerOf(role: string, declaration: RoleDeclaration, table: RoleTable, options: ResolveRolesOptions): Promise<RolePlayer> {
  const { role: named } = options.names ?? ROLE_FLAG;
  if (table.base_url !== undefined) return endpointAt(role, [table.base_url].flat(), table, options);
  const use = table.use ?? declaration.default;
  if (use === null) {
    throw new ConfigError(
      `The environment has a role ${role} (${declaration.about.replace(/(?<![.\s])[.\s]+$/, '')}), but no model is bound to it. Bind one, for example with ${named(role, 'gpt-4.1-mini@https://api.openai.com/v1')} or ${named(role, 'policy')}${options.names === undefined ? `, or in a table [roles.${role}]` : ''}.`,
    );
  }
  if (use === 'policy') return { kind: 'policy' };
  if (use !== 'builtin') return aliased(role, use, table, options);
  if (declaration.builtin !== undefined) return { kind: 'builtin', model: declaration.builtin };
  throw new ConfigError(
    `Role ${role} has no builtin model. Bind it to a server or to the policy: ${named(role, 'MODEL@URL')}, or ${named(role, 'policy')}.`,
  );
}

/** Null if the requests are the environment's own. */
function askedFor(role: string, player: RolePlayer, table: RoleTable): ReadSampling | null {
  const own = player.kind === 'endpoint' ? (player.request ?? {}) : {};
  const { reasoning_effort: effort = own.reasoning_effort, max_tokens: maxTokens = own.max_tokens } = table;
  const sampling = { ...own.sampling, ...table.sampling };
  if (effort === undefined && maxTokens === undefined && Object.keys(sampling).length === 0) return null;
  const asked = {
    sampling,
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
  };
  return readOwnSampling(asked, `roles.${role}`);
}

/** Throws for keys that contradict each other. */
function assertFits(role: string, table: RoleTable, { kind }: RolePlayer): void {
  const { use, base_url: baseUrl, model, api_key_var: keyVariable, cache } = table;
  const refuse = (key: string, why: string) => new ConfigError(`roles.${role}.${key} cannot be used here: ${why}. Leave it out.`);
  if (use !== undefined && baseUrl !== undefined) throw refuse('use', 'base_url already sets the server');
  if (model !== undefined && baseUrl === undefined) throw refuse('model', 'it names a model at base_url, which is not set');
  if (kind === 'endpoint') return;
  if (keyVariable !== undefined) throw refuse('api_key_var', 'it is for the key of a server, and no server plays the role');
  if (table.stream !== undefined) throw refuse('stream', 'it is for the requests to a server, and no server of its own plays the role');
  const asked = ASKED_WITH.find((key) => table[key] !== undefined);
  if (kind === 'builtin' && asked !== undefined) throw refuse(asked, 'it is for the requests to a model, and a builtin model takes none');
  if (cache !== undefined && cache !== 'off')
    throw refuse('cache', kind === 'policy' ? 'the replies of the policy change with its weights' : 'a builtin model runs in this process');
}

function endpointAt(role: string, baseUrls: readonly string[], table: RoleTable, { variables, policyServer }: ResolveRolesOptions): RoleEndpoint {
  baseUrls.forEach((baseUrl) => assertUrl(role, baseUrl));
  if (policyServer && table.api_key_var === undefined && baseUrls.every((url) => policyServer.baseUrls.some((own) => isSameOrigin(url, own)))) {
    const { apiKey, keyVariable, headers } = policyServer;
    return { kind: 'endpoint', baseUrls, model: table.model ?? null, apiKey, keyVariable, headers, alias: null };
  }
  // A provider's key is sent only to the provider, unless the user names its variable for this server.
  const provider = PROVIDERS.find(({ baseUrl }) => baseUrls.every((url) => withoutTrailingSlashes(url) === baseUrl));
  const named = table.api_key_var === undefined ? null : variableName(table.api_key_var, `roles.${role}.api_key_var`);
  const keyVariable = named ?? provider?.keyVariable ?? null;
  const isNeeded = named !== null || provider?.needsKey === true;
  const apiKey = keyVariable === null ? null : keyFrom(role, keyVariable, { variables, isNeeded });
  return { kind: 'endpoint', baseUrls, model: table.model ?? null, apiKey, keyVariable, headers: {}, alias: null, ...streamOf(table, null) };
}

function isSameOrigin(url: string, other: string): boolean {
  return URL.parse(url)?.origin === URL.parse(other)?.origin;
}

async function aliased(
  role: string,
  alias: string,
  table: RoleTable,
  { endpointsPath = null, variables }: ResolveRolesOptions,
): Promise<RoleEndpoint> {
  const registry = await readEndpoints(endpointsPath);
  const { path, endpoints } = registry;
  const rows = endpoints.filter(({ id }) => id === alias);
  const [first] = rows;
  if (first === undefined) throw unknownAlias(role, alias, registry);
  for (const key of ['model', 'stream', 'keyVariable', 'headers', 'price', 'request'] as const) {
    if (rows.some((row) => JSON.stringify(row[key]) !== JSON.stringify(first[key])))
      throw new ConfigError(
        `The [[endpoint]] tables of alias ${alias} in ${path} differ in ${key}. They are replicas of one model, so they must agree in it.`,
      );
  }
  const baseUrls = rows.map(({ baseUrl }) => baseUrl);
  baseUrls.forEach((baseUrl) => assertUrl(role, baseUrl));
  const named = table.api_key_var === undefined ? null : variableName(table.api_key_var, `roles.${role}.api_key_var`);
  const keyVariable = named ?? first.keyVariable;
  const isNeeded = named !== null || !baseUrls.every(isLoopback);
  const apiKey = keyVariable === null ? null : keyFrom(role, keyVariable, { variables, isNeeded });
  const { model, headers, request } = first;
  return { kind: 'endpoint', baseUrls, model, apiKey, keyVariable, headers, alias, request, ...streamOf(table, first) };
}

function streamOf(table: RoleTable, alias: Pick<Endpoint, 'stream'> | null): Pick<RoleEndpoint, 'stream'> {
  const stream = table.stream ?? alias?.stream;
  return stream === undefined ? {} : { stream };
}

/** Null if the variable is not set and not needed, as for many servers on this machine. */
function keyFrom(
  role: string,
  variable: string,
  { variables, isNeeded }: Pick<ResolveRolesOptions, 'variables'> & { readonly isNeeded: boolean },
): string | null {
  const key = variables[variable];
  if (key !== undefined && key !== '') return key;
  if (!isNeeded) return null;
  throw new ConfigError(`The environment variable ${variable} holds no API key for role ${role}; ${settingRemedy(variable)}`);
}

function assertUrl(role: string, text: string): void {
  const url = URL.parse(text);
  if (url !== null && /^https?:$/.test(url.protocol)) return;
  throw new ConfigError(`The URL of role ${role} must begin with http:// or https://, got ${JSON.stringify(redactUrl(text))}.`);
}

function unknownRole(role: string, known: readonly string[]): ConfigError {
  const list = known.length === 0 ? 'It has no roles' : known.length === 1 ? `Its role is ${known[0]}` : `Its roles are ${known.join(', ')}`;
  return new ConfigError(`The environment has no role ${role}${suggestion(role, known)}. ${list}.`);
}

function unknownAlias(role: string, alias: string, { path, isPackaged, endpoints }: EndpointRegistry): ConfigError {
  const own = isPackaged ? ' For aliases of your own, create configs/endpoints.toml here.' : '';
  const known = [...new Set(endpoints.map(({ id }) => id)), 'builtin', 'policy'];
  return new ConfigError(
    `Role ${role} is bound to ${JSON.stringify(alias)}, which is not an alias in ${path}${suggestion(alias, known)}. Use an alias, a URL, MODEL@URL, builtin or policy.${own}`,
  );
}
