/** A web search engine as a retriever: one request per query, with a deadline, retries and a limit of concurrent requests. Each engine has its own file. */
import { RetrievalError, TimeoutError } from '../core/errors.ts';
import { Limiter } from '../core/limiter.ts';
import { Random } from '../core/random.ts';
import { readJson } from '../core/read-json.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse, statusOptions } from '../transport/http-endpoint.ts';
import { errorFields } from '../schemas/error-fields.ts';
import { type Refused, REFUSING_PAGE, refusedBy } from '../schemas/key-refusal.ts';
import { isOutOfCredit } from '../schemas/out-of-credit.ts';
import { type RetryOptions, withRetries } from '../transport/retry.ts';
import type { Passage, Retriever, SearchOptions } from './retriever.ts';
import { noCredit } from './search-endpoint.ts';

export interface WebRetrieverOptions {
  /** @default the engine's own, if it has one */
  readonly baseUrl?: string;
  /** Deadline of one attempt. @default 20000 */
  readonly timeoutMs?: number;
  /** Attempts beyond the first. @default 4 */
  readonly maxRetries?: number;
  /** Delay before the first retry; it doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Maximum of concurrent requests. @default 8 */
  readonly concurrency?: number;
  /** Source of jitter for the delays; does not affect results. @default a generator that differs between processes */
  readonly random?: Random;
}

/** A web engine: the parts in which engines differ. */
export interface WebEngine {
  readonly name: string;
  /** May hold the engine's keys as query parameters, which messages hide. */
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly method: 'GET' | 'POST';
  /** Appended to the path of the base URL. */
  readonly path: string;
  /** The things to check if the engine refuses the caller (401, 403). */
  readonly refusal: string;
  /** The engine itself refuses callers with a web page. @default false */
  readonly refusesWithPage?: boolean;
  /** The body of a POST, the query string of a GET. */
  request(query: string, topk: number): string;
  /** The passages of a parsed answer, or null if its shape is not `expected`. */
  passages(json: unknown, topk: number): readonly Passage[] | null;
  /** Completes "expected". */
  readonly expected: string;
}

export class WebRetriever implements Retriever {
  readonly name: string;
  readonly #engine: WebEngine;
  readonly #endpoint: HttpEndpoint;
  readonly #limiter: Limiter;
  readonly #retry: Omit<RetryOptions, 'signal'>;

  /** Throws ConfigError for an unusable URL or header. */
  constructor(engine: WebEngine, options: WebRetrieverOptions = {}) {
    const { timeoutMs = 20_000, maxRetries = 4, baseDelayMs = 500, concurrency = 8 } = options;
    this.#engine = engine;
    this.#limiter = new Limiter(concurrency);
    this.#endpoint = new HttpEndpoint({
      baseUrl: engine.baseUrl,
      headers: engine.headers,
      connections: concurrency,
      makeError: (message, cause) => new RetrievalError(message, cause),
    });
    this.name = `${engine.name} (${this.#endpoint.url})`;
    this.#retry = { timeoutMs, maxRetries, baseDelayMs, random: options.random ?? Random.fromSeed(process.pid) };
  }

  /** A blank query has no hits and sends no request, because engines refuse it. */
  search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    return Promise.all(queries.map((query) => this.#limiter.run(() => this.#searchOne(query, topk, signal), signal)));
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  async #searchOne(query: string, topk: number, signal: AbortSignal): Promise<readonly Passage[]> {
    if (query.trim() === '') return [];
    try {
      return await withRetries((attempt) => this.#ask(query, topk, attempt), {
        ...this.#retry,
        rateLimit: this.#endpoint.rateLimit,
        signal,
      });
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      // Not retryable: every attempt had its full deadline, and a restarted episode would wait as long again.
      throw new RetrievalError(`${this.#place}: ${error.message}`, { cause: error });
    }
  }

  async #ask(query: string, topk: number, signal: AbortSignal): Promise<readonly Passage[]> {
    const { method, path } = this.#engine;
    const asked = this.#engine.request(query, topk);
    const response = await this.#endpoint.request(
      method === 'GET' ? { method, path: `${path}?${asked}`, signal } : { method, path, body: asked, signal },
    );
    const { status } = response;
    if (isOutOfCredit(status, errorFields(response.body))) throw noCredit(this.#describe(response), response);
    const refused = refusedBy(status, response.body);
    if (refused !== null) throw new RetrievalError(`${this.#describe(response)}; ${this.#remedy(refused)}`, { status, endsRun: status === 401 });
    if (status !== 200) throw new RetrievalError(this.#describe(response), statusOptions(response));
    return this.#parse(response, topk);
  }

  #parse(response: HttpResponse, topk: number): readonly Passage[] {
    let json: unknown;
    try {
      json = readJson(response.body.toString('utf8'));
    } catch (error) {
      // It may be a truncated answer, so a retry may succeed. A wrong shape stays wrong.
      throw new RetrievalError(`${this.#describe(response)} (expected JSON: ${(error as Error).message})`, { status: 200, retryable: true });
    }
    const passages = this.#engine.passages(json, topk);
    if (passages === null) throw new RetrievalError(`${this.#describe(response)} (expected ${this.#engine.expected})`, { status: 200 });
    return passages;
  }

  #remedy(refused: Refused): string {
    const { refusal, refusesWithPage = false } = this.#engine;
    if (refused === 'page') return refusesWithPage ? `${refusal}, or ${REFUSING_PAGE}` : REFUSING_PAGE;
    return refused === 'key' ? refusal : 'it knows the caller and does not allow the request';
  }

  get #place(): string {
    return `[${this.#engine.method}] ${this.#url}`;
  }

  get #url(): string {
    const [before] = this.#endpoint.url.split('?', 1);
    return `${before}${this.#engine.path}`;
  }

  #describe({ status, body }: HttpResponse): string {
    return httpErrorText(this.#engine.method, this.#url, status, body, this.#endpoint.hide);
  }
}

/** Longer queries are cut: engines take no more, and a URL cannot hold any length. */
const LONGEST_QUERY = 2048;

/** The query string of a GET, with the query under `q`. */
export function queryString(query: string, parameters: Readonly<Record<string, string>>): string {
  return new URLSearchParams({ ...parameters, q: query.slice(0, LONGEST_QUERY) }).toString();
}

/** A key that a header or a URL can carry. Never shown. */
export function isUsableKey(key: string): boolean {
  return /^[\x21-\x7e]+$/.test(key);
}
