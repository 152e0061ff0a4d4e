/** Requests to one repository of a Hugging Face hub through `@huggingface/hub`: the token, deadlines, retries, and errors that say what to do. */
import { join } from 'node:path';
import type { Dispatcher } from 'undici';
import { readRegularFileSync } from '../files/regular-file.ts';
import { CancelledError, causeText, ConfigError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import { type Refused, REFUSING_PAGE, refusedBy } from '../schemas/key-refusal.ts';
import { boundedResponse } from '../transport/bounded-response.ts';
import { openConnections, proxyFailure, proxyFor } from '../transport/proxy.ts';
import { RateLimit } from '../transport/rate-limit.ts';
import { redactSecrets, redactUrl } from '../transport/redact.ts';
import { withRetries } from '../transport/retry.ts';
import { hubHome } from './hub-cache.ts';
import { withoutTrailingSlashes } from '../core/server-url.ts';

type Variables = Readonly<Record<string, string | undefined>>;

const HUB_URL = 'https://huggingface.co';
const HUB_CONNECTIONS = 16;
const MOST_ANSWER_BYTES = 16 * 2 ** 20;
const HEADERS_TIMEOUT_MS = 30_000;
/** A hub answers an upload only once it has received all of it. Large files are sent by PUT, small ones by POST. */
const UPLOAD_TIMEOUT_MS: Readonly<Record<string, number>> = { PUT: 3_600_000, POST: 300_000 };

export interface HubRepository {
  readonly type: 'dataset' | 'model';
  /** `owner/name`. */
  readonly name: string;
}

export interface HubConnectionOptions {
  readonly env: Variables;
  readonly signal?: AbortSignal;
  /** Delay before the first retry. @default 500 */
  readonly retryDelayMs?: number;
}

export interface HubParameters {
  readonly hubUrl: string;
  /** For answers: it refuses one of more than 16 MiB. */
  readonly fetch: typeof fetch;
  /** For files, whose size the caller knows. */
  readonly fetchFile: typeof fetch;
  readonly accessToken?: string;
}

/** The token of HF_TOKEN, else of the file in which `hf auth login` keeps it; empty if there is none. Throws ConfigError for text that cannot be a token. */
export function hubToken(env: Variables): string {
  const given = env['HF_TOKEN']?.trim() ?? '';
  if (given !== '' && !given.startsWith('hf_')) throw new ConfigError('HF_TOKEN is not a Hugging Face token: it does not start with hf_.');
  if (given !== '') return given;
  try {
    const stored = readRegularFileSync(env['HF_TOKEN_PATH'] || join(hubHome(env), 'token')).trim();
    return stored.startsWith('hf_') ? stored : '';
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    // Most machines have no token.
    return '';
  }
}

/** The URL of HF_ENDPOINT, else huggingface.co. */
function hubUrl(env: Variables): string {
  const url = withoutTrailingSlashes(env['HF_ENDPOINT']?.trim() || HUB_URL);
  if (!/^https?:\/\//.test(url)) throw new ConfigError(`HF_ENDPOINT must be an http(s) URL, got ${redactUrl(url)}.`);
  return url;
}

/** Every failure is a ConfigError that says what to do. */
export class HubConnection {
  readonly repository: HubRepository;
  readonly url: string;
  readonly #token: string;
  readonly #options: HubConnectionOptions;
  readonly #rateLimit = new RateLimit();
  readonly #proxied = new Map<string, Dispatcher>();

  constructor(repository: HubRepository, options: HubConnectionOptions) {
    this.repository = repository;
    this.#options = options;
    this.url = hubUrl(options.env);
    this.#token = hubToken(options.env);
  }

  get hasToken(): boolean {
    return this.#token !== '';
  }

  /** `what` is downloaded, or with `isPush` uploaded. */
  call<T>(what: string, request: (parameters: HubParameters) => Promise<T>, { isPush = false } = {}): Promise<T> {
    const { signal = new AbortController().signal, retryDelayMs } = this.#options;
    return withRetries(
      async (attempt) => {
        try {
          return await request({
            hubUrl: this.url,
            fetch: this.#fetch(attempt, MOST_ANSWER_BYTES, isPush),
            fetchFile: this.#fetch(attempt, Infinity),
            ...(this.#token !== '' && { accessToken: this.#token }),
          });
        } catch (error) {
          if (signal.aborted) throw new CancelledError(`Stopped ${isPush ? 'pushing' : 'fetching'} ${what}`, { cause: signal.reason });
          throw isPush ? this.#explainPush(error) : this.#explain(what, error);
        }
      },
      {
        signal,
        timeoutMs: Infinity,
        maxRetries: 3,
        random: Random.fromSeed(0),
        rateLimit: this.#rateLimit,
        ...(retryDelayMs !== undefined && { baseDelayMs: retryDelayMs }),
      },
    );
  }

  #fetch(signal: AbortSignal, mostBytes: number, staysAtHub = false): typeof fetch {
    const { origin } = new URL(this.url);
    return boundedFetch({ signal, connectionsTo: this.#connections, tokenOrigin: origin, mostBytes, staysAtHub });
  }

  /** Connections through the proxy of the URL, which may be that of a mirror or a store of large files; null for those of fetch itself. */
  #connections = (url: URL): Dispatcher | null => {
    const proxy = proxyFor(url, this.#options.env);
    if (proxy === null) return null;
    const connections = this.#proxied.get(url.origin) ?? openConnections(url.origin, proxy, HUB_CONNECTIONS);
    this.#proxied.set(url.origin, connections);
    return connections;
  };

  #explain(what: string, error: unknown): ConfigError {
    if (error instanceof ConfigError) return error;
    // fetch wraps what its body failed with.
    const { cause } = error as Error;
    if (cause instanceof ConfigError) return cause;
    const { type, name } = this.repository;
    const where = `${what} of the ${type === 'dataset' ? 'data set' : 'model'} ${name} from ${redactUrl(this.url)}`;
    if (isWrongShape(error)) return this.#notAHub(error);
    const { statusCode: status, code } = error as { statusCode?: number; code?: string };
    const refused = refusal(error);
    if (refused !== null && refused !== 'key')
      return new ConfigError(`Could not fetch ${where} (403): ${this.#refusalText(refused, error)}`, { cause: error, status: 403 });
    if (refused === 'key') {
      const remedy =
        this.#token === ''
          ? 'it does not exist, or is private or gated. Check the name, or set HF_TOKEN to a token with access.'
          : 'the token in HF_TOKEN is invalid or has no access. Check the name and the token.';
      return new ConfigError(`Could not fetch ${where} (${status}): ${remedy}`, { cause: error, status: status! });
    }
    if (status === 404) return new ConfigError(`Could not fetch ${where} (404): it does not exist there. Check the name.`, { cause: error, status });
    if (code === 'ENOSPC' || code === 'EACCES' || code === 'EROFS' || code === 'ENOTDIR') {
      return new ConfigError(`Could not write ${what} to the cache (${code}). Set HF_HOME to a writable folder with free space.`, {
        cause: error,
      });
    }
    const remedy = 'Check the network and HF_ENDPOINT, or fill the cache once on a machine that can reach the hub.';
    return new ConfigError(`Could not fetch ${where}: ${this.#textOf(error)}. ${remedy}`, {
      cause: error,
      retryable: isTransient(status),
      ...(status !== undefined && { status }),
    });
  }

  #explainPush(error: unknown): ConfigError {
    if (error instanceof ConfigError) return error;
    if (isWrongShape(error)) return this.#notAHub(error);
    const { statusCode: status } = error as { statusCode?: number };
    const where = `${this.repository.name} at ${redactUrl(this.url)}`;
    const owner = this.repository.name.split('/')[0];
    const refused = refusal(error);
    if (refused === 'key')
      return new ConfigError(
        `Could not push to ${where} (${status}): the token is invalid or may not write to ${owner}. Set HF_TOKEN to a token with write access.`,
        { cause: error, status: status! },
      );
    if (refused !== null)
      return new ConfigError(`Could not push to ${where} (${status}): ${this.#refusalText(refused, error)}`, { cause: error, status: status! });
    return new ConfigError(`Could not push to ${where}: ${this.#textOf(error)}. Check the network and HF_ENDPOINT, then push again.`, {
      cause: error,
      retryable: isTransient(status),
      ...(status !== undefined && { status }),
    });
  }

  #notAHub(cause: unknown): ConfigError {
    return new ConfigError(`${redactUrl(this.url)} does not answer as a hub does. Check HF_ENDPOINT.`, { cause });
  }

  /** Of a refusal that need not be about the token. */
  #refusalText(refused: 'page' | 'other', error: unknown): string {
    if (refused === 'page') return `${REFUSING_PAGE}. Check the network and HF_ENDPOINT.`;
    return `${this.#textOf(error)}. Check what the hub asks for, and what the account or the token in HF_TOKEN may do.`;
  }

  #textOf(error: unknown): string {
    const proxy = proxyFor(new URL(this.url), this.#options.env);
    const text = redactSecrets(redactUrl(typeof error === 'string' ? error : causeText(error)), [this.#token]).slice(0, 300);
    return proxy === null ? text : proxyFailure(proxy, text);
  }
}

/** What the hub refuses, by the body that its client has kept; null for another failure. */
function refusal(error: unknown): Refused | null {
  const { statusCode, data } = error as { statusCode?: number; data?: unknown };
  return refusedBy(statusCode ?? 0, Buffer.from(fieldText(data)));
}

/** The client wraps a body that is not JSON. */
function fieldText(data: unknown): string {
  const { message, error } = fieldsOf(data);
  return typeof message === 'string' && error === undefined ? message : JSON.stringify(data ?? '');
}

/** The library reads fields of answers that lack them. The errors of fetch have a cause. */
function isWrongShape(error: unknown): boolean {
  return error instanceof TypeError && error.cause === undefined && error.message.startsWith('Cannot read properties');
}

function isTransient(status: number | undefined): boolean {
  return status === undefined || status === 429 || status >= 500;
}

interface BoundedFetchOptions {
  readonly signal: AbortSignal;
  readonly connectionsTo: (url: URL) => Dispatcher | null;
  /** The only origin that gets the token: the library also follows the links of a hub's pages. */
  readonly tokenOrigin: string;
  /** Of an answer. */
  readonly mostBytes: number;
  /** True if a redirect from the hub to another server is an error: fetch leaves the token out there, and may turn a POST into a GET. */
  readonly staysAtHub: boolean;
}

/** Adds a deadline for a hub that accepts a request but never answers; fetch itself ends a stalled body (5 minutes). */
function boundedFetch({ signal, connectionsTo, tokenOrigin, mostBytes, staysAtHub }: BoundedFetchOptions): typeof fetch {
  return async (input, init) => {
    const late = new AbortController();
    const timeoutMs = UPLOAD_TIMEOUT_MS[init?.method ?? 'GET'] ?? HEADERS_TIMEOUT_MS;
    const timer = setTimeout(() => late.abort(new Error(`no answer within ${timeoutMs / 1000} s`)), timeoutMs);
    try {
      const url = new URL(input instanceof Request ? input.url : input);
      const dispatcher = connectionsTo(url);
      const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : {}));
      if (url.origin !== tokenOrigin) headers.delete('authorization');
      const bounded = { ...init, headers, signal: AbortSignal.any([signal, late.signal]) };
      // Node's fetch takes the dispatchers of the undici package, whose types differ.
      const response = await fetch(input, dispatcher === null ? bounded : ({ ...bounded, dispatcher } as unknown as RequestInit));
      if (staysAtHub && url.origin === tokenOrigin && response.redirected && new URL(response.url).origin !== tokenOrigin) {
        await response.body?.cancel();
        const [from, to] = [redactUrl(tokenOrigin), redactUrl(new URL(response.url).origin)];
        throw new ConfigError(`The hub ${from} redirects to ${to}, so nothing was pushed. Set HF_ENDPOINT to the address of the hub itself.`);
      }
      return mostBytes === Infinity ? response : boundedResponse(response, mostBytes, (excess) => new ConfigError(`The hub's answer ${excess}.`));
    } finally {
      clearTimeout(timer);
    }
  };
}
