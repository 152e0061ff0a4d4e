/** Adapters for retrieval: the HTTP endpoint, SerpAPI's answers, Lucene's ranking. */
import type { Passage, Retriever } from 'vf-search';
import { Bm25Index } from '../../src/retrieval/bm25/bm25-index.ts';
import { serpPassages, type SerpResult } from '../../src/retrieval/serper.ts';
import { retrievalApp } from '../../src/server/retrieval-app.ts';
import { nqMiniCorpus } from '../nq-mini-corpus.ts';
import type { Adapter, VectorCase } from './vectors.ts';

interface EndpointInput {
  readonly default_topk: number;
  /** The engine's passages for each query. */
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

interface RankingInput {
  readonly query: string;
  readonly topk: number;
}

/** Corpus ids and scores, best first, by BM25 parameters. */
type Rankings = Readonly<Record<string, readonly (readonly [string, number])[]>>;

export const bm25Adapter: Adapter = {
  actual: async ({ query, topk }: RankingInput, { output }: VectorCase) => {
    const { index, ids } = nqMini();
    const rankings = Object.entries(output as Rankings).map(([name, expected]) => {
      const [, k1, b] = /^k1_([\d.]+)_b_([\d.]+)$/.exec(name) ?? [];
      if (k1 === undefined || b === undefined) throw new Error(`The ranking ${name} is not named k1_<k1>_b_<b>.`);
      const hits = index.search(query, topk, { k1: Number(k1), b: Number(b) });
      // The vectors list topk hits under upstream's parameters and the first three under others.
      const listed = name === 'k1_0.9_b_0.4' ? topk : Math.max(3, expected.length);
      return [name, hits.slice(0, listed).map(({ row, score }, i) => [ids[row], printed(score, expected[i]?.[1])])];
    });
    return Object.fromEntries(rankings);
  },
};

/** The listed score if ours rounds to it. Lucene's floats were printed with four decimals, which may round a half either way. */
function printed(score: number, listed: number | undefined): number {
  return listed !== undefined && Math.abs(score - listed) < 0.0001 ? listed : score;
}

interface IndexedCorpus {
  readonly index: Bm25Index;
  readonly ids: readonly string[];
}

let corpus: IndexedCorpus | undefined;

/** Built once, for the first ranking. */
function nqMini(): IndexedCorpus {
  if (corpus === undefined) {
    const rows = nqMiniCorpus()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { id: string; contents: string });
    corpus = { index: Bm25Index.build(rows.map((row) => row.contents)), ids: rows.map((row) => row.id) };
  }
  return corpus;
}
