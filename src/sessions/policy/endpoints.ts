/**
 * The endpoint registry: `[[endpoint]]` tables of a TOML file give a model and its server a short name. The format is that of verifiers v0;
 * tables with the same `endpoint_id` are replicas of one model.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { StreamSetting } from '../../clients/policy-client.ts';
import { ConfigError } from '../../core/errors.ts';
import type { Price } from '../../core/price.ts';
import { packageRoot } from '../../data/package-root.ts';
import { isObject } from '../../schemas/is-object.ts';
import { ASKED_WITH } from '../../schemas/merge-role-tables.ts';
import { checkHeaders } from './headers.ts';
import { readOwnSampling, type RequestTable } from './sampling.ts';
import { assertKnownKeys, readToml, tablesOf, typeOf } from '../../files/toml-text.ts';

export type ClientType = 'auto' | 'tokens' | 'chat';

export interface Endpoint {
  readonly id: string;
  readonly model: string;
  readonly baseUrl: string;
  /** Environment variable that holds the key; null if none is sent. */
  readonly keyVariable: string | null;
  readonly clientType: ClientType;
  /** Whether completions are asked for as streams. @default 'auto' */
  readonly stream?: StreamSetting;
  readonly headers: Readonly<Record<string, string>>;
  /** Null if the table has none. */
  readonly price: Price | null;
  /** US dollars per million tokens in passes with a gradient, at a training service; null if the table has none. @default null */
  readonly trainPrice?: number | null;
  /** What requests to the model have unless the caller says otherwise; empty for nothing. */
  readonly request: RequestTable;
}

const SPELLINGS = {
  url: ['url', 'api_base_url'],
  key: ['key', 'api_key_var'],
  type: ['type', 'api_client_type', 'client_type'],
  headers: ['headers', 'extra_headers'],
} as const;
const KNOWN_KEYS = ['endpoint_id', 'model', 'price', 'stream', ...ASKED_WITH, ...Object.values(SPELLINGS).flat()];
const DEFAULT_PATH = 'configs/endpoints.toml';

/** Our client types and those of v0 that correspond to them; v0's others use APIs that this package does not support. */
const CLIENT_TYPES: Readonly<Record<string, ClientType>> = {
  auto: 'auto',
  tokens: 'tokens',
  chat: 'chat',
  openai_completions: 'tokens',
  openai_chat_completions: 'chat',
  openai_chat_completions_token: 'tokens',
};

export interface EndpointRegistry {
  readonly path: string;
  /** True for the package's own file, because there is none in this folder. */
  readonly isPackaged: boolean;
  readonly endpoints: readonly Endpoint[];
}

/** `path` is the value of `-e`; null reads ./configs/endpoints.toml, or the package's own file if there is none. */
export async function readEndpoints(path: string | null): Promise<EndpointRegistry> {
  const used = path ?? (existsSync(DEFAULT_PATH) ? DEFAULT_PATH : join(packageRoot(), DEFAULT_PATH));
  const document = await readToml(used);
  assertKnownKeys(document, ['endpoint'], used);
  const isPackaged = path === null && used !== DEFAULT_PATH;
  return {
    path: used,
    isPackaged,
    endpoints: tablesOf(document, 'endpoint', used).map((table, i) => endpointOf(table, `[[endpoint]] ${i + 1} of ${used}`)),
  };
}

export function parseClientType(text: string, where: string): ClientType {
  const type = Object.hasOwn(CLIENT_TYPES, text) ? CLIENT_TYPES[text] : undefined;
  if (type === undefined) throw new ConfigError(`${where} must be one of ${Object.keys(CLIENT_TYPES).join(', ')}, got "${text}"`);
  return type;
}

/** Throws ConfigError unless it is `auto`, true or false. */
export function parseStream(value: unknown, where: string): StreamSetting {
  if (value === 'auto' || typeof value === 'boolean') return value;
  throw new ConfigError(`${where} must be "auto", true or false, got ${typeof value === 'string' ? JSON.stringify(value) : typeOf(value)}`);
}

function endpointOf(table: Readonly<Record<string, unknown>>, where: string): Endpoint {
  assertKnownKeys(table, KNOWN_KEYS, where);
  const pick = (names: readonly string[]) => names.map((name) => table[name]).find((value) => value !== undefined);
  const text = (name: string, value: unknown) => {
    if (typeof value !== 'string' || value === '') throw new ConfigError(`${name} in ${where} must be a string`);
    return value;
  };
  const key = pick(SPELLINGS.key);
  const type = pick(SPELLINGS.type);
  const headers = pick(SPELLINGS.headers) ?? {};
  if (!isObject(headers)) throw new ConfigError(`headers in ${where} must be a table`);
  return {
    id: text('endpoint_id', table['endpoint_id']),
    model: text('model', table['model']),
    baseUrl: text('url', pick(SPELLINGS.url)),
    keyVariable: key === undefined || key === 'EMPTY' ? null : variableName(text('key', key), `key in ${where}`),
    clientType: type === undefined ? 'auto' : parseClientType(text('type', type), `type in ${where}`),
    ...(table['stream'] === undefined ? {} : { stream: parseStream(table['stream'], `stream in ${where}`) }),
    headers: checkHeaders(headers, `headers in ${where}`),
    ...(table['price'] === undefined ? { price: null } : pricesOf(table['price'], `price in ${where}`)),
    request: requestOf(table, where),
  };
}

function requestOf(table: Readonly<Record<string, unknown>>, where: string): RequestTable {
  const { sampling, reasoning_effort: effort, max_tokens: maxTokens } = table;
  if (sampling !== undefined && !isObject(sampling)) throw new ConfigError(`sampling in ${where} must be a table, got ${typeOf(sampling)}`);
  if (effort !== undefined && (typeof effort !== 'string' || effort === '')) throw new ConfigError(`reasoning_effort in ${where} must be a string`);
  const request = {
    ...(sampling === undefined ? {} : { sampling }),
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens as number }),
  };
  readOwnSampling(request, where);
  return request;
}

/** Without `cached`, tokens from the server's cache cost as much as others. */
function pricesOf(table: unknown, where: string): Pick<Endpoint, 'price' | 'trainPrice'> {
  if (!isObject(table)) throw new ConfigError(`${where} must be a table such as { input = 0.5, cached = 0.1, output = 1.5 }, got ${typeOf(table)}`);
  assertKnownKeys(table, ['input', 'cached', 'output', 'train'], where);
  const dollars = (name: string): number => {
    const value = table[name];
    if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
    const got = typeof value === 'number' ? String(value) : value === undefined ? 'nothing' : typeOf(value);
    throw new ConfigError(`${name} in the ${where} must be US dollars per million tokens, at least 0, got ${got}`);
  };
  return {
    price: { input: dollars('input'), cached: dollars(table['cached'] === undefined ? 'input' : 'cached'), output: dollars('output') },
    ...(table['train'] === undefined ? {} : { trainPrice: dollars('train') }),
  };
}

/** Returns the text if it is a valid variable name. The error does not show it, because it may be the key itself. */
export function variableName(text: string, where: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(text)) return text;
  throw new ConfigError(`${where} must be the name of an environment variable that holds the key, not the key itself`);
}
