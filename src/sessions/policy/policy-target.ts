/**
 * Resolves the policy from the caller's description, the endpoint registry and environment variables. Makes no connections.
 * Order: a URL, a provider, an alias that the model names, VF_BASE_URL, then the built-in baseline.
 */
import { resolve } from 'node:path';
import { settingRemedy } from '../environment/environment-file.ts';
import { assertLanguageModel, type LanguageModel } from '../../clients/language-model.ts';
import type { PolicyClient, StreamSetting } from '../../clients/policy-client.ts';
import { ConfigError } from '../../core/errors.ts';
import { isModulePath } from '../../core/module-path.ts';
import type { Price } from '../../core/price.ts';
import { moduleExport } from '../../registry/load-export.ts';
import { redactUrl } from '../../transport/redact.ts';
import { suggestion } from '../../core/closest-name.ts';
import { type ClientType, type Endpoint, parseClientType, parseStream, readEndpoints, variableName } from './endpoints.ts';
import { BASELINE, EMBEDDED, type Provider, PROVIDER_NAMES, PROVIDERS } from './providers.ts';
import type { PolicySpec } from './policy-spec.ts';
import type { RequestTable } from './sampling.ts';
import type { SettingNames } from '../setting-names.ts';

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
  /** @default 'auto' */
  readonly stream?: StreamSetting;
  /** The alias in the registry, if one was used. */
  readonly alias: string | null;
  /** What the alias is asked with. @default nothing */
  readonly request?: RequestTable;
  /** The price that the caller gave. @default that of the registry */
  readonly price?: Price;
  /** The setting that selected this policy, for messages: `-p vllm`, `VF_BASE_URL`. */
  readonly chosenBy: string;
  /** True for a policy that a request to a server names. @default false */
  readonly isOfRequest?: boolean;
  /** What the caller sets to name the key's variable, for messages. @default the setting `apiKeyVar`, by the caller's name for it */
  readonly keySetting?: string;
}

/** A model in this process. */
export interface EmbeddedTarget {
  readonly kind: 'embedded';
  /** A model directory, a PEFT adapter directory or the name of a bundled model. */
  readonly model: string;
}

/** A model that this process would play once it is downloaded; only a dry run has one. */
interface AbsentTarget {
  readonly kind: 'absent';
  /** Its id on the hub. */
  readonly model: string;
  /** The id of the model that is not here: its own, or that of its base. */
  readonly toDownload: string;
}

/** A model of the AI SDK. */
export interface LanguageModelTarget {
  readonly kind: 'language-model';
  readonly model: LanguageModel;
  /** @default 'auto' */
  readonly stream?: StreamSetting;
  /** @default unknown */
  readonly price?: Price;
}

/** A client of the caller's own, which stays open. */
interface ClientTarget {
  readonly kind: 'client';
  readonly client: PolicyClient;
}

export type PolicyTarget =
  | EndpointTarget
  | LanguageModelTarget
  | EmbeddedTarget
  | AbsentTarget
  | ClientTarget
  | { readonly kind: 'baseline'; readonly asked: boolean }
  | { readonly kind: 'program' };

/** The facts about the caller that resolving a policy needs. */
export interface PolicyContext {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly names: SettingNames;
  /** The model in this process if the caller names none. */
  readonly bundledModel: () => Promise<string>;
}

export async function resolvePolicyTarget(spec: PolicySpec, context: PolicyContext): Promise<PolicyTarget> {
  const { variables, names } = context;
  // Read even if another setting chooses the policy; otherwise a misspelled path would go unnoticed.
  if (spec.endpointsPath !== undefined) await readEndpoints(spec.endpointsPath);
  const model = spec.model ?? nonEmpty(variables['VF_MODEL']);
  const clientType = parseClientType(spec.clientType ?? 'auto', names.name('clientType'));
  if (spec.stream !== undefined) parseStream(spec.stream, names.name('stream'));
  if (spec.languageModel !== undefined || isModulePath(spec.provider ?? '')) return languageModelTarget(spec, names);
  const provider = spec.provider === undefined ? null : providerNamed(spec.provider, names);
  if (provider === BASELINE) {
    if (spec.baseUrl !== undefined) {
      const pair = `${names.given({ provider: BASELINE })} (the built-in policy) and ${names.given({ baseUrl: 'URL' })}`;
      throw new ConfigError(`${pair} cannot be combined. Leave one out.`);
    }
    return { kind: 'baseline', asked: true };
  }
  if (provider === EMBEDDED) return embeddedTarget(spec, context);
  if (provider !== null || spec.baseUrl !== undefined) return explicitTarget(spec, provider, { model, clientType }, context);
  const alias = model === null ? null : await aliasTarget(model, spec, context);
  if (alias !== null) return alias;
  const baseUrl = nonEmpty(variables['VF_BASE_URL']);
  if (baseUrl !== null) return { ...endpoint([baseUrl], 'VF_BASE_URL', spec), model, clientType, ...keyFor(spec, null, context) };
  if (model !== null) throw await modelWithoutServer(model, spec, names);
  for (const setting of OF_SERVER) {
    if (spec[setting] === undefined) continue;
    const choices = `${names.given({ baseUrl: 'URL' })} or ${names.given({ provider: 'NAME' })}`;
    throw new ConfigError(`${names.name(setting)} needs a policy: add ${choices}`);
  }
  return { kind: 'baseline', asked: false };
}

/** Settings that have an effect only on a server. */
const OF_SERVER = ['apiKeyVar', 'apiKey', 'headers', 'clientType', 'stream'] as const satisfies readonly (keyof PolicySpec)[];

/** What only a server has. A model of the AI SDK has its key and its headers from its provider. */
const NOT_OF_LANGUAGE_MODELS = ['model', 'baseUrl', 'apiKeyVar', 'apiKey', 'headers', 'clientType'] as const satisfies readonly (keyof PolicySpec)[];

async function languageModelTarget(
  { languageModel, provider, stream, price, ...spec }: PolicySpec,
  names: SettingNames,
): Promise<LanguageModelTarget> {
  const chosenBy = provider === undefined ? names.name('languageModel') : names.given({ provider });
  const unused =
    provider !== undefined && languageModel !== undefined ? 'provider' : NOT_OF_LANGUAGE_MODELS.find((setting) => spec[setting] !== undefined);
  if (unused !== undefined)
    throw new ConfigError(
      `${names.name(unused)} has no effect next to a model of the AI SDK (${chosenBy}), which its own provider asks. Leave one out.`,
    );
  const model: unknown = languageModel ?? (await moduleExport(resolve(provider!), 'policy', names.name('provider')));
  assertLanguageModel(model, provider === undefined ? chosenBy : `The export policy of ${provider}`);
  return { kind: 'language-model', model, ...(stream === undefined ? {} : { stream }), ...(price === undefined ? {} : { price }) };
}

/** Ignores VF_MODEL, which names a model at VF_BASE_URL. */
async function embeddedTarget(spec: PolicySpec, { names, bundledModel }: PolicyContext): Promise<EmbeddedTarget> {
  for (const setting of ['baseUrl', ...OF_SERVER] as const) {
    if (spec[setting] === undefined) continue;
    const embedded = names.given({ provider: EMBEDDED });
    throw new ConfigError(`${names.name(setting)} cannot be combined with ${embedded}, because the model runs in this process`);
  }
  return { kind: 'embedded', model: spec.model ?? (await bundledModel()) };
}

function explicitTarget(
  spec: PolicySpec,
  provider: Provider | null,
  asked: Pick<EndpointTarget, 'model' | 'clientType'>,
  context: PolicyContext,
): EndpointTarget {
  const { names } = context;
  const chosenBy = spec.baseUrl === undefined ? names.given({ provider: provider!.name }) : names.name('baseUrl');
  // A provider's key is sent to another URL only if the user also named the provider.
  return { ...endpoint([spec.baseUrl ?? provider!.baseUrl], chosenBy, spec), ...asked, ...keyFor(spec, provider, context) };
}

async function aliasTarget(model: string, spec: PolicySpec, context: PolicyContext): Promise<EndpointTarget | null> {
  const { path, endpoints } = await readEndpoints(spec.endpointsPath ?? null);
  const rows = endpoints.filter((e) => e.id === model);
  const [first] = rows;
  if (first === undefined) return null;
  for (const key of ['model', 'clientType', 'stream', 'keyVariable', 'headers', 'price', 'request'] as const) {
    if (rows.some((row) => JSON.stringify(row[key]) !== JSON.stringify(first[key]))) {
      throw new ConfigError(`Every "${model}" in ${path} must have the same ${key}, because they are replicas of one model`);
    }
  }
  const urls = rows.map((row) => row.baseUrl);
  const forced = spec.clientType;
  return {
    ...endpoint(urls, `alias ${model} in ${path}`, spec),
    model: first.model,
    clientType: forced === undefined ? first.clientType : parseClientType(forced, context.names.name('clientType')),
    alias: model,
    request: first.request,
    ...aliasKey(first, path, spec, context),
    headers: { ...first.headers, ...spec.headers },
    ...(spec.stream === undefined && first.stream !== undefined && { stream: first.stream }),
  };
}

type Key = Pick<EndpointTarget, 'apiKey' | 'keyVariable'>;

function aliasKey(row: Endpoint, path: string, spec: PolicySpec, context: PolicyContext): Key {
  if (spec.apiKey !== undefined || spec.apiKeyVar !== undefined) return keyFor(spec, null, context);
  if (row.keyVariable === null) return { apiKey: null, keyVariable: null };
  const apiKey = nonEmpty(context.variables[row.keyVariable]);
  if (apiKey === null && !isLoopback(row.baseUrl)) throw missingKey(row.keyVariable, `alias ${row.id} in ${path}`);
  return { apiKey, keyVariable: row.keyVariable };
}

type CommonParts = Pick<EndpointTarget, 'kind' | 'baseUrls' | 'alias' | 'chosenBy' | 'headers' | 'price' | 'stream'>;

function endpoint(baseUrls: readonly string[], chosenBy: string, { headers = {}, price, stream }: PolicySpec): CommonParts {
  for (const baseUrl of baseUrls) {
    const url = URL.parse(baseUrl);
    if (url === null || !/^https?:$/.test(url.protocol)) {
      throw new ConfigError(`The URL ${JSON.stringify(redactUrl(baseUrl))} (${chosenBy}) does not begin with http:// or https://`);
    }
  }
  return {
    kind: 'endpoint',
    baseUrls,
    alias: null,
    chosenBy,
    headers,
    ...(price === undefined ? {} : { price }),
    ...(stream === undefined ? {} : { stream }),
  };
}

/** The key itself, else that of the named variable, else of the provider's own, else of VF_API_KEY. */
function keyFor({ apiKey: given, apiKeyVar: named }: PolicySpec, provider: Provider | null, { variables, names }: PolicyContext): Key {
  if (given !== undefined) return { apiKey: given, keyVariable: null };
  const keyVariable = named === undefined ? (provider?.keyVariable ?? 'VF_API_KEY') : variableName(named, names.name('apiKeyVar'));
  const apiKey = nonEmpty(variables[keyVariable]);
  if (apiKey === null && (named !== undefined || provider?.needsKey === true)) {
    throw missingKey(keyVariable, named === undefined ? names.given({ provider: provider!.name }) : names.name('apiKeyVar'));
  }
  return { apiKey, keyVariable };
}

function providerNamed(name: string, names: SettingNames): Provider | typeof BASELINE | typeof EMBEDDED {
  if (name === BASELINE || name === EMBEDDED) return name;
  const provider = PROVIDERS.find((p) => p.name === name);
  if (provider === undefined) {
    const other = names.given({ baseUrl: 'URL' });
    throw new ConfigError(
      `Unknown provider "${name}"${suggestion(name, PROVIDER_NAMES)}; known are ${PROVIDER_NAMES.join(', ')}; use ${other} for any other server`,
    );
  }
  return provider;
}

async function modelWithoutServer(model: string, spec: PolicySpec, names: SettingNames): Promise<ConfigError> {
  const { path, isPackaged, endpoints } = await readEndpoints(spec.endpointsPath ?? null);
  const aliases = endpoints.map((row) => row.id);
  const source = spec.model === undefined ? 'VF_MODEL' : names.name('model');
  const providers = PROVIDER_NAMES.filter((n) => n !== BASELINE).join(', ');
  return new ConfigError(
    `The model "${model}" (${source}) has no server: add ${names.given({ provider: 'NAME' })} (${providers}) or ${names.given({ baseUrl: 'URL' })}, ` +
      `or use an alias from ${path}${suggestion(model, aliases)}${isPackaged ? '; for aliases of your own, create configs/endpoints.toml here' : ''}`,
  );
}

function missingKey(variable: string, source: string): ConfigError {
  return new ConfigError(`The environment variable ${variable} (${source}) holds no API key; ${settingRemedy(variable)}`);
}

export function isLoopback(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? '';
  return host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' || /^127(\.\d+){3}$/.test(host);
}

function nonEmpty(text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text;
}

/** What the caller sets to name the variable that holds the server's key. */
export function keySettingOf({ keySetting }: EndpointTarget, names: SettingNames): string {
  return keySetting ?? names.name('apiKeyVar');
}
