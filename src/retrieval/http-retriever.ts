/**
 * Client of a retrieval server: `POST {queries, topk, return_scores: true}`, or UltraRAG's `POST {query_list, top_k}`. Works with Search-R1's and
 * UltraRAG's servers and `vf-serve retrieve`.
 * Unlike upstream's client it has deadlines and retries, checks the status, and sends nothing without queries. The decorators `batched` and
 * `cached` merge and cache requests.
 */
import { encodeRetrieveRequest, encodeSearchRequest } from '../schemas/retrieve.ts';
import { parsePassages } from './passage-shapes.ts';
import type { Passage, Retriever, SearchOptions } from './retriever.ts';
import { SearchEndpoint, type SearchEndpointOptions } from './search-endpoint.ts';

/** `url` is one to post to, such as `http://127.0.0.1:8000/retrieve`; a URL without a path gets `/retrieve`. */
export interface HttpRetrieverOptions extends SearchEndpointOptions {
  /** The protocol of the server: Search-R1's `/retrieve`, or UltraRAG's `/search`. @default 'retrieve' */
  readonly protocol?: 'retrieve' | 'search';
}

export class HttpRetriever implements Retriever {
  readonly name: string;
  readonly #endpoint: SearchEndpoint;
  readonly #isSearch: boolean;

  /** Throws ConfigError for an unusable URL. */
  constructor(options: HttpRetrieverOptions) {
    this.#endpoint = new SearchEndpoint(options, { path: '/retrieve' });
    this.name = this.#endpoint.name;
    this.#isSearch = options.protocol === 'search';
  }

  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    if (queries.length === 0) return [];
    const body = this.#isSearch ? encodeSearchRequest(queries, topk) : encodeRetrieveRequest(queries, topk);
    return this.#endpoint.ask({ body }, (response) => parsePassages(response.body, queries.length, this.#isSearch ? 'ret_psg' : 'result'), signal);
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }
}
