/**
 * Which policy the flags, the endpoint registry and the environment variables name. Nothing is contacted here.
 * Order: -b, -p, an alias given by -m, VF_BASE_URL; with none of them the built-in baseline.
 */
import { ConfigError } from '../../core/errors.ts';
import { redactUrl } from '../../transport/redact.ts';
import { suggestion } from '../../core/closest-name.ts';
import { type ClientType, type Endpoint, parseClientType, readEndpoints, variableName } from './endpoints.ts';
import { BASELINE, EMBEDDED, type Provider, PROVIDER_NAMES, PROVIDERS } from './providers.ts';
import type { Settings } from './settings.ts';

export interface EndpointTarget {
  readonly kind: 'endpoint';
  /** Null where the server is to say what it serves. */
  readonly model: string | null;
  /** More than one are replicas of the same model. */
  readonly baseUrls: readonly string[];
  /** Null sends no key. */
  readonly apiKey: string | null;
  /** The environment variable that the key is from, or would be. */
  readonly keyVariable: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly clientType: ClientType;
  /** The alias in the registry, when one was used. */
  readonly alias: string | null;
  /** What made this the policy, for the output: `-p vllm`, `VF_BASE_URL`. */
  readonly chosenBy: string;
}

/** A model that plays in this process. */
export interface EmbeddedTarget {
  readonly kind: 'embedded';
  /** A model directory, a PEFT adapter directory or the name of a bundled model, as the user gave it; null where nothing was said. */
  readonly model: string | null;
}

export type PolicyTarget = EndpointTarget | EmbeddedTarget | { readonly kind: 'baseline'; readonly asked: boolean };

type Variables = Readonly<Record<string, string | undefined>>;

export async function resolvePolicyTarget(settings: Settings, variables: Variables): Promise<PolicyTarget> {
  // A file that was named is read, whatever the policy turns out to be: a wrong name would be ignored otherwise.
  if (settings['endpoints-path'] !== undefined) await readEndpoints(settings['endpoints-path']);
  const model = settings.model ?? nonEmpty(variables['VF_MODEL']);
  const clientType = parseClientType(settings['api-client-type'] ?? 'auto', '--api-client-type');
  const provider = settings.provider === undefined ? null : providerNamed(settings.provider);
  if (provider === BASELINE) {
    if (settings['api-base-url'] !== undefined)
      throw new ConfigError('-p baseline (the built-in policy) and -b URL exclude each other. Leave one out.');
    return { kind: 'baseline', asked: true };
  }
  if (provider === EMBEDDED) return embeddedTarget(settings);
  if (provider !== null || settings['api-base-url'] !== undefined) return explicitTarget(settings, provider, model, clientType, variables);
  const alias = model === null ? null : await aliasTarget(model, settings, variables);
  if (alias !== null) return alias;
  const baseUrl = nonEmpty(variables['VF_BASE_URL']);
  if (baseUrl !== null) {
    return { ...endpoint([baseUrl], 'VF_BASE_URL'), model, clientType, ...keyFor(settings, null, variables), headers: settings.header ?? {} };
  }
  if (model !== null) throw await unplacedModel(model, settings);
  for (const flag of ['api-key-var', 'header', 'api-client-type'] as const) {
    if (settings[flag] !== undefined) throw new ConfigError(`--${flag} needs a policy: add -b URL or -p NAME`);
  }
  return { kind: 'baseline', asked: false };
}

/** VF_MODEL names a model at VF_BASE_URL and is not asked. */
function embeddedTarget(settings: Settings): EmbeddedTarget {
  for (const flag of ['api-base-url', 'api-key-var', 'header', 'api-client-type'] as const) {
    if (settings[flag] !== undefined) throw new ConfigError(`--${flag} has no meaning beside -p embedded: the model plays in this process`);
  }
  return { kind: 'embedded', model: settings.model ?? null };
}

function explicitTarget(
  settings: Settings,
  provider: Provider | null,
  model: string | null,
  clientType: ClientType,
  variables: Variables,
): EndpointTarget {
  const baseUrl = settings['api-base-url'] ?? provider!.baseUrl;
  // A URL given by hand is not sent the key of a provider that it may not belong to, unless the user named both.
  const key = keyFor(settings, provider, variables);
  const chosenBy = settings['api-base-url'] === undefined ? `-p ${provider!.name}` : '-b';
  return { ...endpoint([baseUrl], chosenBy), model, clientType, ...key, headers: settings.header ?? {} };
}

async function aliasTarget(model: string, settings: Settings, variables: Variables): Promise<EndpointTarget | null> {
  const { path, endpoints } = await readEndpoints(settings['endpoints-path'] ?? null);
  const rows = endpoints.filter((e) => e.id === model);
  const [first] = rows;
  if (first === undefined) return null;
  for (const key of ['model', 'clientType', 'keyVariable', 'headers'] as const) {
    if (rows.some((row) => JSON.stringify(row[key]) !== JSON.stringify(first[key]))) {
      throw new ConfigError(`Every "${model}" in ${path} must have the same ${key}: they are replicas of one model`);
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

/** -k, then the provider's own variable, then VF_API_KEY for a URL without a provider. */
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
      `Unknown provider "${name}"${suggestion(name, PROVIDER_NAMES)}; known are ${PROVIDER_NAMES.join(', ')}; any other server: -b URL`,
    );
  }
  return provider;
}

async function unplacedModel(model: string, settings: Settings): Promise<ConfigError> {
  const { path, endpoints } = await readEndpoints(settings['endpoints-path'] ?? null);
  const aliases = endpoints.map((row) => row.id);
  const source = settings.model === undefined ? 'VF_MODEL' : '-m';
  return new ConfigError(
    `Nothing says where "${model}" (${source}) is served: add -p NAME (${PROVIDER_NAMES.filter((n) => n !== BASELINE).join(', ')}) or -b URL, ` +
      `or use an alias of ${path}${suggestion(model, aliases)}`,
  );
}

function missingKey(variable: string, source: string): ConfigError {
  return new ConfigError(`The environment variable ${variable} (${source}) holds no API key: export it or put it into .env`);
}

export function isLoopback(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? '';
  return host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' || /^127(\.\d+){3}$/.test(host);
}

function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text;
}
