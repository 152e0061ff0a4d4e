/**
 * Resolves the policy from flags, the endpoint registry and environment variables. Makes no connections.
 * Order: -b, -p, an alias named by -m, VF_BASE_URL, then the built-in baseline.
 */
import { ConfigError } from '../../core/errors.ts';
import { redactUrl } from '../../transport/redact.ts';
import { suggestion } from '../../core/closest-name.ts';
import { type ClientType, type Endpoint, parseClientType, readEndpoints, variableName } from './endpoints.ts';
import { BASELINE, EMBEDDED, type Provider, PROVIDER_NAMES, PROVIDERS } from './providers.ts';
import type { Settings } from '../../cli/eval/settings.ts';

export interface EndpointTarget {
  readonly kind: 'endpoint';
  /** Null for the server's only model. */
  readonly model: string | null;
  /** Several URLs are replicas of the same model. */
  readonly baseUrls: readonly string[];
  /** Null sends no key. */
  readonly apiKey: string | null;
  /** The environment variable of the key, which may not be set. */
  readonly keyVariable: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly clientType: ClientType;
  /** The alias in the registry, if one was used. */
  readonly alias: string | null;
  /** What selected this policy, for messages: `-p vllm`, `VF_BASE_URL`. */
  readonly chosenBy: string;
  /** False for a policy that a request to a server names. @default true */
  readonly isOfCommand?: boolean;
}

/** A model in this process. */
export interface EmbeddedTarget {
  readonly kind: 'embedded';
  /** A model directory, a PEFT adapter directory or the name of a bundled model. */
  readonly model: string;
}

export type PolicyTarget = EndpointTarget | EmbeddedTarget | { readonly kind: 'baseline'; readonly asked: boolean } | { readonly kind: 'program' };

type Variables = Readonly<Record<string, string | undefined>>;

/** @param bundledModel the model of `-p embedded` without -m */
export async function resolvePolicyTarget(settings: Settings, variables: Variables, bundledModel: () => Promise<string>): Promise<PolicyTarget> {
  // Read even if another setting chooses the policy; otherwise a misspelled path would go unnoticed.
  if (settings['endpoints-path'] !== undefined) await readEndpoints(settings['endpoints-path']);
  const model = settings.model ?? nonEmpty(variables['VF_MODEL']);
  const clientType = parseClientType(settings['api-client-type'] ?? 'auto', '--api-client-type');
  const provider = settings.provider === undefined ? null : providerNamed(settings.provider);
  if (provider === BASELINE) {
    if (settings['api-base-url'] !== undefined)
      throw new ConfigError('-p baseline (the built-in policy) and -b URL cannot be combined. Leave one out.');
    return { kind: 'baseline', asked: true };
  }
  if (provider === EMBEDDED) return embeddedTarget(settings, bundledModel);
  if (provider !== null || settings['api-base-url'] !== undefined) return explicitTarget(settings, provider, model, clientType, variables);
  const alias = model === null ? null : await aliasTarget(model, settings, variables);
  if (alias !== null) return alias;
  const baseUrl = nonEmpty(variables['VF_BASE_URL']);
  if (baseUrl !== null) {
    return { ...endpoint([baseUrl], 'VF_BASE_URL'), model, clientType, ...keyFor(settings, null, variables), headers: settings.header ?? {} };
  }
  if (model !== null) throw await modelWithoutServer(model, settings);
  for (const flag of ['api-key-var', 'header', 'api-client-type'] as const) {
    if (settings[flag] !== undefined) throw new ConfigError(`--${flag} needs a policy: add -b URL or -p NAME`);
  }
  return { kind: 'baseline', asked: false };
}

/** Ignores VF_MODEL, which names a model at VF_BASE_URL. */
async function embeddedTarget(settings: Settings, bundledModel: () => Promise<string>): Promise<EmbeddedTarget> {
  for (const flag of ['api-base-url', 'api-key-var', 'header', 'api-client-type'] as const) {
    if (settings[flag] !== undefined) throw new ConfigError(`--${flag} cannot be combined with -p embedded, because the model runs in this process`);
  }
  return { kind: 'embedded', model: settings.model ?? (await bundledModel()) };
}

function explicitTarget(
  settings: Settings,
  provider: Provider | null,
  model: string | null,
  clientType: ClientType,
  variables: Variables,
): EndpointTarget {
  const baseUrl = settings['api-base-url'] ?? provider!.baseUrl;
  // A provider's key is sent to a URL from -b only if the user also named the provider.
  const key = keyFor(settings, provider, variables);
  const chosenBy = settings['api-base-url'] === undefined ? `-p ${provider!.name}` : '-b';
  return { ...endpoint([baseUrl], chosenBy), model, clientType, ...key, headers: settings.header ?? {} };
}

async function aliasTarget(model: string, settings: Settings, variables: Variables): Promise<EndpointTarget | null> {
  const { path, endpoints } = await readEndpoints(settings['endpoints-path'] ?? null);
  const rows = endpoints.filter((e) => e.id === model);
  const [first] = rows;
  if (first === undefined) return null;
  for (const key of ['model', 'clientType', 'keyVariable', 'headers', 'price'] as const) {
    if (rows.some((row) => JSON.stringify(row[key]) !== JSON.stringify(first[key]))) {
      throw new ConfigError(`Every "${model}" in ${path} must have the same ${key}, because they are replicas of one model`);
    }
  }
  const forced = settings['api-client-type'];
  return {
    ...endpoint(
      rows.map((row) => row.baseUrl),
      `alias ${model} in ${path}`,
    ),
    model: first.model,
    clientType: forced === undefined ? first.clientType : parseClientType(forced, '--api-client-type'),
    alias: model,
    ...aliasKey(first, path, settings, variables),
    headers: { ...first.headers, ...settings.header },
  };
}

type Key = Pick<EndpointTarget, 'apiKey' | 'keyVariable'>;

function aliasKey(row: Endpoint, path: string, settings: Settings, variables: Variables): Key {
  if (settings['api-key-var'] !== undefined) return keyFor(settings, null, variables);
  if (row.keyVariable === null) return { apiKey: null, keyVariable: null };
  const apiKey = nonEmpty(variables[row.keyVariable]);
  if (apiKey === null && !isLoopback(row.baseUrl)) throw missingKey(row.keyVariable, `alias ${row.id} in ${path}`);
  return { apiKey, keyVariable: row.keyVariable };
}

function endpoint(baseUrls: readonly string[], chosenBy: string): Pick<EndpointTarget, 'kind' | 'baseUrls' | 'alias' | 'chosenBy'> {
  for (const baseUrl of baseUrls) {
    const url = URL.parse(baseUrl);
    if (url === null || !/^https?:$/.test(url.protocol)) {
      throw new ConfigError(`The URL ${JSON.stringify(redactUrl(baseUrl))} (${chosenBy}) does not begin with http:// or https://`);
    }
  }
  return { kind: 'endpoint', baseUrls, alias: null, chosenBy };
}

/** From -k, else the provider's own variable, else VF_API_KEY. */
function keyFor(settings: Settings, provider: Provider | null, variables: Variables): Key {
  const named = settings['api-key-var'];
  const keyVariable = named === undefined ? (provider?.keyVariable ?? 'VF_API_KEY') : variableName(named, '-k');
  const apiKey = nonEmpty(variables[keyVariable]);
  if (apiKey === null && (named !== undefined || provider?.needsKey === true)) {
    throw missingKey(keyVariable, named === undefined ? `-p ${provider!.name}` : '-k');
  }
  return { apiKey, keyVariable };
}

function providerNamed(name: string): Provider | typeof BASELINE | typeof EMBEDDED {
  if (name === BASELINE || name === EMBEDDED) return name;
  const provider = PROVIDERS.find((p) => p.name === name);
  if (provider === undefined) {
    throw new ConfigError(
      `Unknown provider "${name}"${suggestion(name, PROVIDER_NAMES)}; known are ${PROVIDER_NAMES.join(', ')}; use -b URL for any other server`,
    );
  }
  return provider;
}

async function modelWithoutServer(model: string, settings: Settings): Promise<ConfigError> {
  const { path, isPackaged, endpoints } = await readEndpoints(settings['endpoints-path'] ?? null);
  const aliases = endpoints.map((row) => row.id);
  const source = settings.model === undefined ? 'VF_MODEL' : '-m';
  return new ConfigError(
    `The model "${model}" (${source}) has no server: add -p NAME (${PROVIDER_NAMES.filter((n) => n !== BASELINE).join(', ')}) or -b URL, ` +
      `or use an alias from ${path}${suggestion(model, aliases)}${isPackaged ? '; for aliases of your own, create configs/endpoints.toml here' : ''}`,
  );
}

function missingKey(variable: string, source: string): ConfigError {
  return new ConfigError(`The environment variable ${variable} (${source}) holds no API key; export it or put it in .env`);
}

export function isLoopback(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? '';
  return host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' || /^127(\.\d+){3}$/.test(host);
}

function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text;
}
