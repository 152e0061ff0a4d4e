/**
 * Client of a retrieval server: `POST {queries, topk, return_scores: true}`, or UltraRAG's `POST {query_list, top_k}`. Works with Search-R1's and
 * UltraRAG's servers and `vf-serve retrieve`.
 * Unlike upstream's client it has deadlines and retries, checks the status, and sends nothing without queries. The decorators `batched` and
 * `cached` merge and cache requests.
 */
import { RetrievalError, TimeoutError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { encodeRetrieveRequest, encodeSearchRequest } from '../schemas/retrieve.ts';
import { HttpEndpoint, type HttpResponse, httpErrorText, statusOptions } from '../transport/http-endpoint.ts';
import { redactUrl } from '../transport/redact.ts';
import { type RetryOptions, withRetries } from '../transport/retry.ts';
import { parsePassages } from './passage-shapes.ts';
import type { Passage, Retriever } from './retriever.ts';

export interface HttpRetrieverOptions {
  /** URL to post to, such as `http://127.0.0.1:8000/retrieve`; a URL without a path gets `/retrieve`. User and password become Basic auth. */
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What the server speaks: Search-R1's `/retrieve`, or UltraRAG's `/search`. @default 'retrieve' */
  readonly protocol?: 'retrieve' | 'search';
  /** Deadline of one attempt. @default 60000 */
  readonly timeoutMs?: number;
  /** Attempts beyond the first. @default 4 */
  readonly maxRetries?: number;
  /** Delay before the first retry; it doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Maximum of sockets. @default 32 */
  readonly connections?: number;
  /** Source of jitter for the delays; does not affect results. @default a generator that differs between processes */
  readonly random?: Random;
}

export class HttpRetriever implements Retriever {
  readonly name: string;
  readonly #endpoint: HttpEndpoint;
  readonly #path: string;
  readonly #isSearch: boolean;
  readonly #retry: Omit<RetryOptions, 'signal'>;

  /** Throws ConfigError for an unusable URL. */
  constructor(options: HttpRetrieverOptions) {
    const { url, headers = {}, timeoutMs = 60_000, maxRetries = 4, baseDelayMs = 500, connections = 32 } = options;
    const { baseUrl, path } = splitUrl(url);
    this.name = redactUrl(joinUrl(baseUrl, path));
    this.#path = path;
    this.#isSearch = options.protocol === 'search';
    this.#endpoint = new HttpEndpoint({ baseUrl, headers, connections, makeError: (message, cause) => new RetrievalError(message, cause) });
    this.#retry = { timeoutMs, maxRetries, baseDelayMs, random: options.random ?? Random.fromSeed(process.pid) };
  }

  async search(
    queries: readonly string[],
    { topk, signal }: { readonly topk: number; readonly signal: AbortSignal },
  ): Promise<readonly (readonly Passage[])[]> {
    if (queries.length === 0) return [];
    const body = this.#isSearch ? encodeSearchRequest(queries, topk) : encodeRetrieveRequest(queries, topk);
    try {
      return await withRetries((attempt) => this.#post(body, queries.length, attempt), { ...this.#retry, signal });
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error;
      // Not retryable: every attempt had its full deadline, and a restarted episode would wait as long again.
      throw new RetrievalError(`[POST] ${this.name}: ${error.message}`, { cause: error });
    }
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  async #post(body: string, queryCount: number, signal: AbortSignal): Promise<readonly (readonly Passage[])[]> {
    const response = await this.#endpoint.request({ method: 'POST', path: this.#path, body, signal });
    if (response.status !== 200) throw new RetrievalError(this.#describe(response), statusOptions(response));
    const answer = parsePassages(response.body, queryCount, this.#isSearch ? 'ret_psg' : 'result');
    if (answer.ok) return answer.lists;
    // Invalid JSON may be a truncated answer, so a retry may succeed. A wrong shape stays wrong.
    throw new RetrievalError(`${this.#describe(response)} (${answer.problem})`, { status: 200, retryable: !answer.isJson });
  }

  #describe({ status, body }: HttpResponse): string {
    return httpErrorText('POST', this.name, status, body, this.#endpoint.hide);
  }
}

/** Splits off the last segment as the path, because the endpoint appends the query string to the path. */
function splitUrl(text: string): { baseUrl: string; path: string } {
  const url = URL.parse(text);
  // The endpoint reports an invalid URL.
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
