/** The interface through which servers reach models and search engines. The command chooses the implementations. */
import type { PolicyClient, StreamSetting } from '../clients/policy-client.ts';
import type { Retriever } from '../retrieval/retriever.ts';

export interface ChatService {
  /** With the version in the path: `http://localhost:8000/v1`. */
  readonly baseUrl: string;
  readonly model: string;
  /** @default the key of the command's environment */
  readonly apiKey?: string;
  /** Requests in flight, at most. */
  readonly concurrency: number;
  /** Attempts after the first. */
  readonly retries: number;
  /** @default 'auto' */
  readonly stream?: StreamSetting;
}

/** `url`: a server that answers `/search` or `/retrieve`. `corpus`: BM25 over a bundled corpus, a file or an index. `web`: a web search engine. */
export type SearchService = { readonly url: string } | { readonly corpus: string } | { readonly web: true };

export interface ServiceOpeners {
  chat(service: ChatService): Promise<PolicyClient>;
  search(service: SearchService): Promise<Retriever>;
}
