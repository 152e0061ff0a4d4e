/** Vectors of the retrieval side: the HTTP endpoint, SerpAPI's answers, Lucene's ranking. */
import type { Passage, Retriever } from 'vf-search';
import { serpPassages, type SerpResult } from '../../src/retrieval/serper.ts';
import { retrievalApp } from '../../src/server/retrieval-app.ts';
import type { Adapter, VectorCase } from './vectors.ts';

interface EndpointInput {
  readonly default_topk: number;
  /** The passages that the engine has for each query. */
  readonly corpus_hits: Readonly<Record<string, readonly Passage[]>>;
  readonly body: unknown;
}

export const retrieveEndpointAdapter: Adapter = {
  actual: async ({ default_topk, corpus_hits, body }: EndpointInput) => {
    const app = retrievalApp({ retriever: stubRetriever(corpus_hits), defaultTopk: default_topk });
    const headers = { 'content-type': 'application/json' };
    const response = await app.request('/retrieve', { method: 'POST', headers, body: JSON.stringify(body) });
    return response.ok ? { status: response.status, body: await response.json() } : { status: response.status };
  },
  declared: ({ tags, input }: VectorCase) => {
    const scores = ((input as EndpointInput).body as Record<string, unknown> | null)?.['return_scores'];
    return tags.includes('upstream_bug') && !scores ? 'without scores upstream fails or answers garbage; the port answers bare documents' : undefined;
  },
};

/** The first `topk` passages known for a query, scored 1.0, 0.9, ... */
function stubRetriever(hits: EndpointInput['corpus_hits']): Retriever {
  return {
    name: 'stub',
    search: async (queries, { topk }) => queries.map((query) => (hits[query] ?? []).slice(0, topk).map((hit, i) => ({ ...hit, score: 1 - 0.1 * i }))),
    close: async () => {},
  };
}

export const serpAdapter: Adapter = {
  actual: ({ topk, search_result }: { topk: number; search_result: SerpResult }) => serpPassages(search_result, topk),
};

export const bm25Adapter: Adapter = {
  actual: () => {
    throw new Error('The BM25 index is not there yet');
  },
};
