/**
 * A retrieval server by URL: `POST {queries, topk, return_scores: true}`. Speaks to Search-R1's servers and to `vf-serve retrieve`.
 * Upstream's client has no deadline, no retry and no look at the status; this one has all three, and sends nothing when there is no query.
 * Merging and caching of requests are decorators (`batched`, `cached`).
 */
import { RetrievalError, TimeoutError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { encodeRetrieveRequest } from '../schemas/retrieve.ts';
import { HttpEndpoint, type HttpResponse, httpErrorText, statusOptions } from '../transport/http-endpoint.ts';
import { redactUrl } from '../transport/redact.ts';
import { type RetryOptions, withRetries } from '../transport/retry.ts';
import { parsePassages } from './passage-shapes.ts';
import type { Passage, Retriever } from './retriever.ts';

export interface HttpRetrieverOptions {
  /** Where to post, such as `http://127.0.0.1:8000/retrieve`; a URL without a path gets `/retrieve`. User and password become Basic auth. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Deadline of one attempt. @default 60000 */
  readonly timeoutMs?: number;
  /** Attempts beyond the first. @default 4 */
  readonly maxRetries?: number;
  /** Back-off before the first retry; it doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Sockets at most. @default 32 */
  readonly connections?: number;
  /** Draws the jitter of the back-off, which no result depends on. @default a generator that differs between processes */
  readonly random?: Random;
}

export class HttpRetriever implements Retriever {
  readonly name: string;
  readonly #endpoint: HttpEndpoint;
  readonly #path: string;
  readonly #retry: Omit<RetryOptions, 'signal'>;

  /** Throws ConfigError when the URL cannot be used. */
  constructor(options: HttpRetrieverOptions) {
    const { url, headers = {}, timeoutMs = 60_000, maxRetries = 4, baseDelayMs = 500, connections = 32 } = options;
    const { baseUrl, path } = splitUrl(url);
    this.name = redactUrl(joinUrl(baseUrl, path));
    this.#path = path;
    this.#endpoint = new HttpEndpoint({ baseUrl, headers, connections, makeError: (message, cause) => new RetrievalError(message, cause) });
    this.#retry = { timeoutMs, maxRetries, baseDelayMs, random: options.random ?? Random.fromSeed(process.pid) };
  }

  async search(
    queries: readonly string[],
    { topk, signal }: { readonly topk: number; readonly signal: AbortSignal },
  ): Promise<readonly (readonly Passage[])[]> {
    if (queries.length === 0) return [];
    const body = encodeRetrieveRequest(queries, topk);
    try {
      return await withRetries((attempt) => this.#post(body, queries.length, attempt), { ...this.#retry, signal });
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      // Not retryable: every attempt had a full deadline, and an episode begun again would wait as long once more.
      throw new RetrievalError(`[POST] ${this.name}: ${error.message}`, { cause: error });
    }
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  async #post(body: string, queryCount: number, signal: AbortSignal): Promise<readonly (readonly Passage[])[]> {
    const response = await this.#endpoint.request({ method: 'POST', path: this.#path, body, signal });
    if (response.status !== 200) throw new RetrievalError(this.#describe(response), statusOptions(response));
    const answer = parsePassages(response.body, queryCount);
    if (answer.ok) return answer.lists;
    // Torn JSON is an answer cut short: the same request may well succeed. A wrong shape stays wrong.
    throw new RetrievalError(`${this.#describe(response)} (${answer.problem})`, { status: 200, retryable: !answer.isJson });
  }

  #describe({ status, body }: HttpResponse): string {
    return httpErrorText('POST', this.name, status, body, this.#endpoint.hide);
  }
}

/** Base for the endpoint and the last segment as the path, since the endpoint puts its query string behind the path. */
function splitUrl(text: string): { baseUrl: string; path: string } {
  const url = URL.parse(text);
  // What is no URL is refused by the endpoint, with its own words.
  if (url === null) return { baseUrl: text, path: '/retrieve' };
  const cut = url.pathname.lastIndexOf('/');
  const path = url.pathname === '/' ? '/retrieve' : url.pathname.slice(cut);
  url.pathname = url.pathname.slice(0, cut);
  url.hash = '';
  return { baseUrl: url.href, path };
}

function joinUrl(baseUrl: string, path: string): string {
  const [before, query] = baseUrl.split('?', 2);
  return `${before!.replace(/\/+$/, '')}${path}${query === undefined ? '' : `?${query}`}`;
}
