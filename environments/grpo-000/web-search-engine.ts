/** The web as a search engine: Serper, Google's Custom Search, or a SearXNG server, with a cache, a rate limit with a bounded queue, deadlines and retries. */
import { CancelledError, type Retriever } from 'vf-search';
import { openWebSearch, type WebSearchOptions } from 'vf-search/environment-kit';
import { retrieverEngine, type SearchEngine } from './search-engine.ts';

export interface WebSearchEngineOptions extends Omit<WebSearchOptions, 'provider'> {
  /** `google`: Google's Custom Search API; `serper`: Google through serper.dev; `searxng`: a server of your own. @default 'google' (the specification) */
  readonly provider?: WebSearchOptions['provider'];
  /** Results per search. @default 3 */
  readonly topk?: number;
  /** The effect of a search that fails after its retries: an error, or the empty text. @default 'throw' */
  readonly onFailure?: 'throw' | 'empty';
}

/**
 * Answers with the engine's results as search-r1 prints passages. Results are kept in a cache, so that a repeated search is answered even if the engine would now time out.
 * @example
 * const engine = new WebSearchEngine({ provider: 'searxng', baseUrl: 'http://127.0.0.1:8888', perSecond: 2 });
 * const text = await engine.search('eiffel tower height', { signal });
 */
export class WebSearchEngine implements SearchEngine {
  readonly name: string;
  readonly #options: WebSearchEngineOptions & Pick<WebSearchOptions, 'provider'>;
  #opened: Promise<SearchEngine> | undefined;

  constructor(options: WebSearchEngineOptions = {}) {
    this.#options = { ...options, provider: options.provider ?? 'google' };
    this.name = this.#options.provider;
  }

  /** Opens the engine; without a call, the first search opens it. Throws ConfigError for an unknown provider or a missing key. */
  async open(): Promise<void> {
    await this.#engine();
  }

  /** Throws RetrievalError if the search fails after its retries, unless `onFailure` is `empty`. */
  async search(query: string, { signal }: { readonly signal: AbortSignal }): Promise<string> {
    const engine = await this.#engine();
    try {
      return await engine.search(query, { signal });
    } catch (error) {
      if (this.#options.onFailure !== 'empty' || error instanceof CancelledError || signal.aborted) throw error;
      return '';
    }
  }

  /** The texts of several queries, in order. The queries run concurrently, within the limits of concurrency and rate. */
  searchAll(queries: readonly string[], options: { readonly signal: AbortSignal }): Promise<string[]> {
    return Promise.all(queries.map((query) => this.search(query, options)));
  }

  async close(): Promise<void> {
    await (await this.#opened?.catch(() => undefined))?.close();
  }

  #engine(): Promise<SearchEngine> {
    const { topk = 3, onFailure: _onFailure, ...options } = this.#options;
    return (this.#opened ??= openWebSearch(options).then((retriever: Retriever) => retrieverEngine(retriever, { topk })));
  }
}
