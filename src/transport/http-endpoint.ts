/**
 * A client of one HTTP server: a pool of persistent connections, bounded responses, failures in the caller's own error class. The caller decides
 * whether a status is a failure and whether to retry (`withRetries`, `statusOptions`). Redirects and content encodings are not supported: model servers
 * and retrievers use none.
 */
import type { Dispatcher } from 'undici';
import { abortError, onAbort } from '../core/abort.ts';
import { countText } from '../core/count-text.ts';
import { GatheredBytes } from '../core/gathered-bytes.ts';
import { ReplyBounds } from '../core/json-bounds.ts';
import { CancelledError, ConfigError, VfError, type VfErrorOptions } from '../core/errors.ts';
import { headerCredentials, urlCredentials } from './credentials.ts';
import { isProxyRefusal, openConnections, type Proxy, proxyFailure, proxyFor } from './proxy.ts';
import { quotation } from './quotes.ts';
import { RateLimit } from './rate-limit.ts';
import { redactUrl, secretRedactor } from './redact.ts';
import { requestedWaitMs, retryAfterMs } from './requested-wait.ts';
import { transportSettings } from './transport-settings.ts';
import { withoutTrailingSlashes } from '../core/server-url.ts';

export type HttpHeaders = Record<string, string | string[] | undefined>;

export interface HttpResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: HttpHeaders;
  readonly body: Buffer;
}

export interface HttpEndpointOptions {
  /** `http(s)://[user:password@]host[:port][/path][?query]`; the query is sent with every request. */
  readonly baseUrl: string;
  /** Sent with every request; they override the defaults, which are JSON for `accept` and `content-type`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Maximum number of sockets; further requests wait for a free one. @default 256 */
  readonly connections?: number;
  /** Larger responses are rejected. @default 64 MiB */
  readonly maxResponseBytes?: number;
  /** True for replies of bytes, which are no text and pass without the bounds of JSON. @default false */
  readonly isBinary?: boolean;
  /** Creates the error for a network failure, in the class of the caller's boundary. */
  readonly makeError: (message: string, options: VfErrorOptions) => VfError;
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Begins with a slash and is appended to the path of `baseUrl`. */
  readonly path: string;
  readonly body?: string | Buffer;
  /** Override the endpoint's headers for this request; names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export class HttpEndpoint {
  /** The base URL without a trailing slash and without secrets, for messages and results. */
  readonly url: string;
  /** Removes the endpoint's own credentials from a string: a server may repeat them. */
  readonly hide: (text: string) => string;
  /** The rate limit of this server for this key, shared with its other clients. */
  readonly rateLimit: RateLimit;
  readonly #releaseLimit: () => void;
  readonly #proxy: Proxy | null;
  readonly #pool: Dispatcher;
  readonly #origin: string;
  readonly #path: string;
  readonly #query: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #maxResponseBytes: number;
  readonly #isBinary: boolean;
  readonly #makeError: HttpEndpointOptions['makeError'];
  #closed = false;

  constructor({ baseUrl, headers = {}, connections = 256, maxResponseBytes = 64 * 2 ** 20, isBinary = false, makeError }: HttpEndpointOptions) {
    const base = httpUrl(baseUrl);
    this.#origin = base.origin;
    this.#path = withoutTrailingSlashes(base.pathname);
    this.#query = base.search;
    this.url = redactUrl(`${base.origin}${this.#path}${this.#query}`);
    this.#headers = { accept: 'application/json', 'content-type': 'application/json', ...basicAuth(base), ...checkedHeaders(headers) };
    this.#proxy = proxyFor(base, transportSettings().variables);
    const own = [...headerCredentials({ ...basicAuth(base), ...headers }), ...urlCredentials(baseUrl)];
    this.hide = secretRedactor([...own, ...(this.#proxy?.secrets ?? [])]);
    const shared = RateLimit.share(JSON.stringify([this.#origin, this.#headers['authorization'] ?? '', this.#headers['api-key'] ?? '']));
    this.rateLimit = shared.limit;
    this.#releaseLimit = shared.release;
    this.#maxResponseBytes = maxResponseBytes;
    this.#isBinary = isBinary;
    this.#makeError = makeError;
    this.#pool = openConnections(base.origin, this.#proxy, connections);
  }

  /**
   * Resolves with any status. Rejects with an error from `makeError` if the network failed (retryable) or the response is too large (not retryable)
   * or compressed. When the signal aborts, rejects with its reason if that is a VfError, else with CancelledError, and frees the socket.
   */
  request({ method, path, body, headers: extra, signal }: HttpRequest): Promise<HttpResponse> {
    const query = path.includes('?') ? this.#query.replace('?', '&') : this.#query;
    const target = `${this.#path}${path}${query}`;
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(abortError(signal));
      if (this.#closed) return reject(closedError());
      const where = () => redactUrl(`${this.#origin}${target}`);
      const exchange = new Exchange(signal, { maxBytes: this.#maxResponseBytes, bounds: this.#isBinary ? null : new ReplyBounds() }, (outcome) => {
        if (outcome.ok) {
          const problem = encodingProblem(outcome.response);
          if (problem === null) return resolve(outcome.response);
          return reject(this.#makeError(`${where()} ${problem}`, statusOptions(outcome.response)));
        }
        if (outcome.error instanceof VfError) return reject(outcome.error);
        if (outcome.error instanceof ResponseTooLarge)
          return reject(this.#makeError(`${where()} ${outcome.error.message}`, { status: outcome.error.status }));
        const failure = networkFailure(outcome.error);
        const text = this.#proxy === null ? failure : proxyFailure(this.#proxy, failure);
        reject(this.#makeError(`${where()} did not answer: ${text}`, { cause: outcome.error, retryable: !isProxyRefusal(failure) }));
      });
      // Some servers reject a content-type on a GET without a body.
      const { 'content-type': _, ...bare } = this.#headers;
      const headers = { ...(body === undefined ? bare : this.#headers), ...extra };
      try {
        this.#pool.dispatch({ origin: this.#origin, method, path: target, headers, body: body ?? null }, exchange);
      } catch (error) {
        exchange.fail(error);
      }
    });
  }

  /** Aborts requests in flight and closes all connections. Safe to call twice. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#releaseLimit();
    await this.#pool.destroy(closedError());
  }
}

/** Number of bytes of an error response that are decoded. */
const QUOTED_BYTES = 16_384;

type Outcome = { readonly ok: true; readonly response: HttpResponse } | { readonly ok: false; readonly error: unknown };

interface ExchangeLimits {
  readonly maxBytes: number;
  /** Null for replies that are no JSON. */
  readonly bounds: ReplyBounds | null;
}

class ResponseTooLarge extends Error {
  readonly status: number;

  constructor(status: number, excess: string) {
    super(excess);
    this.status = status;
  }
}

/** One request on the pool. Collects the response up to its limit and settles exactly once. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #listening: Disposable;
  readonly #limits: ExchangeLimits;
  readonly #settle: (outcome: Outcome) => void;
  #controller: Dispatcher.DispatchController | null = null;
  #failure: Error | null = null;
  #settled = false;
  #status = 0;
  #headers: HttpHeaders = {};
  readonly #body = new GatheredBytes();

  constructor(signal: AbortSignal, limits: ExchangeLimits, settle: (outcome: Outcome) => void) {
    this.#limits = limits;
    this.#settle = settle;
    this.#listening = onAbort(signal, () => this.fail(abortError(signal)));
  }

  /** Settles with the error and frees the socket, or prevents a waiting request from getting one. */
  fail(error: unknown): void {
    if (this.#settled) return;
    this.#failure = error instanceof Error ? error : new Error(String(error));
    this.#end({ ok: false, error });
    this.#controller?.abort(this.#failure);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#failure !== null) controller.abort(this.#failure);
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: HttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
    if (Number(headers['content-length'] ?? 0) > this.#limits.maxBytes) this.#refuse(this.#moreBytes());
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#body.length + chunk.length > this.#limits.maxBytes) return this.#refuse(this.#moreBytes());
    const excess = this.#limits.bounds?.take(chunk) ?? null;
    if (excess !== null) return this.#refuse(`returned JSON that ${excess}`);
    this.#body.push(chunk);
  }

  #refuse(excess: string): void {
    this.fail(new ResponseTooLarge(this.#status, excess));
  }

  #moreBytes(): string {
    return `returned more than ${countText(this.#limits.maxBytes)} bytes`;
  }

  onResponseEnd(): void {
    const { buffer, byteOffset, length } = this.#body.bytes;
    this.#end({ ok: true, response: { status: this.#status, headers: this.#headers, body: Buffer.from(buffer, byteOffset, length) } });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end({ ok: false, error });
  }

  #end(outcome: Outcome): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#listening[Symbol.dispose]();
    this.#settle(outcome);
  }
}

/** `[POST] http://host/path: 500 first 200 characters of the body`, on one line and without the URL's secrets. `hide` removes other secrets from the body. */
export function httpErrorText(method: string, url: string, status: number, body: Buffer | string, hide = (text: string) => text): string {
  // The slice avoids decoding a 64 MB error page. Secrets are hidden before the cut to 200: a truncated secret would not be recognised.
  const head = typeof body === 'string' ? body.slice(0, QUOTED_BYTES) : body.subarray(0, QUOTED_BYTES).toString('utf8');
  const hidden = hide(head);
  // The end of a body that was cut may be the beginning of a secret.
  const certain = body.length > QUOTED_BYTES ? Math.max(0, hidden.length - QUOTED_BYTES / 4) : 200;
  const text = hidden.slice(0, Math.min(200, certain));
  const line = text
    .toWellFormed()
    .replace(/[\s\p{Cc}]+/gu, ' ')
    .trim();
  return `[${method}] ${redactUrl(url)}: ${status} ${quotation(line)}`.trim();
}

/** Error options for an unexpected status: 408, 409, 425, 429 and 5xx are retryable, except 501 and 505. */
export function statusOptions({ status, headers, body }: Pick<HttpResponse, 'status' | 'headers'> & Partial<HttpResponse>): VfErrorOptions {
  const retryable = [408, 409, 425, 429].includes(status) || (status >= 500 && status !== 501 && status !== 505);
  const isLimit = status === 429 || status === 529 || status === 503;
  const wait = isLimit ? requestedWaitMs({ headers, ...(body !== undefined && { body }) }) : retryAfterMs(headers);
  return { status, retryable, ...(wait === null ? {} : { retryAfterMs: wait }) };
}

/** The fault of a compressed body; null for a plain one. */
function encodingProblem({ status, headers, body }: HttpResponse): string | null {
  const encoding = single(headers['content-encoding']).trim().toLowerCase();
  if (encoding === '' || encoding === 'identity' || body.length === 0) return null;
  return `answered ${status} with Content-Encoding: ${quotation(encoding.slice(0, 40))}, which is not supported; switch off compression in the server or in the proxy before it`;
}

function single(value: string | string[] | undefined): string {
  return (Array.isArray(value) ? value[0] : value) ?? '';
}

function closedError(): CancelledError {
  return new CancelledError('The client was closed before the server answered');
}

function networkFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // If all addresses of a host fail, Node throws an AggregateError with an empty message.
  const message = error instanceof AggregateError && error.message === '' ? error.errors.map((e: Error) => e.message).join('; ') : error.message;
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined || message.includes(code) ? message : `${code}: ${message}`;
}

function httpUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null && /^https?:\/\/[^/?#]/i.test(text))
    throw new ConfigError(`The URL ${JSON.stringify(redactUrl(text))} has an invalid host or port. Ports go up to 65535.`);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new ConfigError(`The URL ${JSON.stringify(redactUrl(text))} does not begin with http:// or https://`);
  return url;
}

function basicAuth({ username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {};
  if (/%(?![0-9a-f]{2})/i.test(username + password))
    throw new ConfigError('The user name or password of a URL contains a bare percent sign. Write it as %25.');
  const pair = unescape(`${username}:${password}`);
  return { authorization: `Basic ${Buffer.from(pair, 'latin1').toString('base64')}` };
}

/** The headers with lower-case names. Throws ConfigError for one that HTTP does not allow, without its value, which may be a secret. */
function checkedHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const checked: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name))
      throw new ConfigError(`The header name ${JSON.stringify(name)} must consist of letters, digits and dashes`);
    if (/[^\t\x20-\x7e\x80-\xff]/.test(value))
      throw new ConfigError(`The value of header ${name} must be one line of Latin-1 text. Look for a stray line break.`);
    checked[name.toLowerCase()] = value;
  }
  return checked;
}
