/** The common part of clients of retrieval servers: the URL, deadlines, retries, and the report of an answer that cannot be used. */
import { RetrievalError, TimeoutError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { HttpEndpoint, type HttpRequest, type HttpResponse, httpErrorText, statusOptions } from '../transport/http-endpoint.ts';
import { errorFields } from '../schemas/error-fields.ts';
import { type Refused, REFUSING_PAGE, refusedBy } from '../schemas/key-refusal.ts';
import { isOutOfCredit } from '../schemas/out-of-credit.ts';
import { redactUrl } from '../transport/redact.ts';
import { type RetryOptions, withRetries } from '../transport/retry.ts';
import type { ParsedAnswer } from './parsed-answer.ts';
import { withoutTrailingSlashes } from '../core/server-url.ts';

export interface SearchEndpointOptions {
  /** URL of the route; user and password become Basic auth. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Deadline of one attempt. @default 60000 */
  readonly timeoutMs?: number;
  /** Attempts beyond the first. @default 4 */
  readonly maxRetries?: number;
  /** Delay before the first retry; it doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Maximum of sockets. @default 32 */
  readonly connections?: number;
  /** Larger answers are refused. @default 64 MiB */
  readonly maxResponseBytes?: number;
  /** True for answers of bytes (`HttpEndpoint`). @default false */
  readonly isBinary?: boolean;
  /** Source of jitter for the delays; does not affect results. @default a generator that differs between processes */
  readonly random?: Random;
}

/** The server, or a proxy before it, refuses the caller or the request (401, 403). */
class SearchRefusal extends RetrievalError {
  readonly refused: Refused;

  constructor(message: string, status: number, refused: Refused) {
    super(message, { status });
    this.refused = refused;
  }
}

/** True if a server refuses the key, or demands one: the error itself, or one that it comes from. */
export function isOfKey(error: unknown): boolean {
  if (error instanceof SearchRefusal) return error.refused === 'key';
  return error instanceof Error && isOfKey(error.cause);
}

export class SearchEndpoint {
  /** The route's URL without credentials. */
  readonly name: string;
  readonly #endpoint: HttpEndpoint;
  readonly #path: string;
  readonly #retry: Omit<RetryOptions, 'signal'>;

  /** `path` is used for a URL without one. Throws ConfigError for an unusable URL. */
  constructor(options: SearchEndpointOptions, { path: fallback }: { readonly path: string }) {
    const {
      url,
      headers = {},
      timeoutMs = 60_000,
      maxRetries = 4,
      baseDelayMs = 500,
      connections = 32,
      maxResponseBytes,
      isBinary = false,
    } = options;
    const { baseUrl, path } = splitUrl(url, fallback);
    this.name = redactUrl(joinUrl(baseUrl, path));
    this.#path = path;
    this.#endpoint = new HttpEndpoint({
      baseUrl,
      headers,
      connections,
      isBinary,
      ...(maxResponseBytes === undefined ? {} : { maxResponseBytes }),
      makeError: (message, cause) => new RetrievalError(message, cause),
    });
    this.#retry = { timeoutMs, maxRetries, baseDelayMs, random: options.random ?? Random.fromSeed(process.pid) };
  }

  /** Posts the body, or gets the route with a query string, until an attempt succeeds. Throws RetrievalError or CancelledError. */
  async ask<T>(
    request: { readonly body: string } | { readonly query: string },
    parse: (response: HttpResponse) => ParsedAnswer<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const method = 'body' in request ? 'POST' : 'GET';
    const sent =
      'body' in request
        ? ({ method: 'POST', path: this.#path, body: request.body } as const)
        : ({ method: 'GET', path: request.query === '' ? this.#path : `${this.#path}?${request.query}` } as const);
    try {
      return await withRetries((attempt) => this.#attempt({ ...sent, signal: attempt }, parse), {
        ...this.#retry,
        rateLimit: this.#endpoint.rateLimit,
        signal,
      });
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      // Not retryable: every attempt had its full deadline, and a restarted episode would wait as long again.
      throw new RetrievalError(`[${method}] ${this.name}: ${error.message}`, { cause: error });
    }
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  async #attempt<T>(request: HttpRequest, parse: (response: HttpResponse) => ParsedAnswer<T>): Promise<T> {
    const response = await this.#endpoint.request(request);
    const described = () => httpErrorText(request.method, this.name, response.status, response.body, this.#endpoint.hide);
    if (isOutOfCredit(response.status, errorFields(response.body))) throw noCredit(described(), response);
    const refused = refusedBy(response.status, response.body);
    if (refused !== null) throw new SearchRefusal(refused === 'page' ? `${described()}; ${REFUSING_PAGE}` : described(), response.status, refused);
    if (response.status !== 200) throw new RetrievalError(described(), statusOptions(response));
    const answer = parse(response);
    if (answer.ok) return answer.value;
    throw new RetrievalError(`${described()} (${answer.problem})`, { status: 200, retryable: !answer.isJson });
  }
}

/** No later request can succeed. */
export function noCredit(described: string, { status }: Pick<HttpResponse, 'status'>): RetrievalError {
  return new RetrievalError(`${described}; the account has no credit left`, { status, endsRun: true });
}

/** Splits off the last segment as the path, because the endpoint appends the query string to the path. */
function splitUrl(text: string, fallback: string): { baseUrl: string; path: string } {
  const url = URL.parse(text);
  // The endpoint reports an invalid URL.
  if (url === null) return { baseUrl: text, path: fallback };
  const cut = url.pathname.lastIndexOf('/');
  const path = url.pathname === '/' ? fallback : url.pathname.slice(cut);
  url.pathname = url.pathname.slice(0, cut);
  url.hash = '';
  return { baseUrl: url.href, path };
}

function joinUrl(baseUrl: string, path: string): string {
  const [before, query] = baseUrl.split('?', 2);
  return `${withoutTrailingSlashes(before!)}${path}${query === undefined ? '' : `?${query}`}`;
}
