/**
 * Loopback servers that answer as Qdrant and OpenSearch do, over the contract's passages. No server of either could be had from PyPI, npm or Debian: Qdrant's shapes are
 * those of test/golden/retrieval/qdrant.json, OpenSearch's those of the documentation of its `_msearch`.
 */
import { openBm25 } from '../../src/retrieval/bm25/open-bm25.ts';
import type { Passage } from '../../src/retrieval/retriever.ts';
import { CONTRACT_PASSAGES } from '../contracts/retriever.ts';
import { loopback, type Loopback, readText, sendJson } from '../transport/loopback.ts';
import { wordVector } from './dense/served-embeddings.ts';

export const COLLECTION = 'wiki 18';
const PATH = encodeURIComponent(COLLECTION);

interface Ranked {
  readonly passage: Passage;
  readonly row: number;
  readonly score: number;
}

function nearest(vector: readonly number[], limit: number): Ranked[] {
  const cosine = (passage: Passage) => {
    const other = wordVector(passage.contents);
    return vector.reduce((sum, value, i) => sum + value * other[i]!, 0) / (Math.hypot(...vector) * Math.hypot(...other));
  };
  const ranked = CONTRACT_PASSAGES.map((passage, row) => ({ passage, row, score: cosine(passage) }));
  return ranked.toSorted((a, b) => b.score - a.score).slice(0, limit);
}

/** `apiKey`: other requests are refused, as Qdrant refuses them. */
export function serveQdrant({ apiKey }: { readonly apiKey?: string } = {}): Promise<Loopback> {
  return loopback(async (request, response) => {
    const { searches } = JSON.parse(await readText(request)) as { searches: { query: number[]; limit: number }[] };
    if (apiKey !== undefined && request.headers['api-key'] !== apiKey) return void response.writeHead(403).end('Must provide an API key');
    if (request.method !== 'POST' || request.url !== `/collections/${PATH}/points/query/batch`) {
      const error = "Not found: Collection `other` doesn't exist!";
      return sendJson(response, 404, { status: { error }, time: 0.0001 });
    }
    const result = searches.map(({ query, limit }) => ({
      points: nearest(query, limit).map(({ passage: { id, contents }, row, score }) => ({
        id: 100 + row,
        version: 0,
        score,
        payload: { id, contents },
      })),
    }));
    sendJson(response, 200, { result, status: 'ok', time: 0.001 });
  });
}

interface Search {
  readonly size: number;
  readonly query:
    | { readonly match: { readonly contents: { readonly query: string } } }
    | { readonly knn: { readonly vector: { readonly vector: number[] } } };
}

export interface ServedOpenSearch extends Loopback {
  readonly bodies: readonly string[];
}

export async function serveOpenSearch(): Promise<ServedOpenSearch> {
  const words = await openBm25(CONTRACT_PASSAGES);
  const bodies: string[] = [];
  const server = await loopback(async (request, response) => {
    const body = await readText(request);
    bodies.push(body);
    if (request.headers['content-type'] !== 'application/x-ndjson')
      return sendJson(response, 406, { error: 'Content-Type header is not supported', status: 406 });
    if (request.url !== `/${PATH}/_msearch`)
      return sendJson(response, 200, {
        took: 1,
        responses: body
          .trim()
          .split('\n')
          .slice(0, -1)
          .map(() => NO_INDEX),
      });
    const searches = body
      .trim()
      .split('\n')
      .filter((_, i) => i % 2 === 1)
      .map((line) => JSON.parse(line) as Search);
    const responses = await Promise.all(searches.map(async ({ size, query }) => answer(await ranked(query, size))));
    sendJson(response, 200, { took: 3, responses });
  });
  const ranked = async (query: Search['query'], size: number): Promise<Ranked[]> => {
    if ('knn' in query) return nearest(query.knn.vector.vector, size);
    const [hits] = await words.search([query.match.contents.query], { topk: size, signal: new AbortController().signal });
    return hits!.map((passage) => ({ passage, row: Number(passage.id), score: passage.score! }));
  };
  return Object.assign(server, { bodies });
}

const NO_INDEX = {
  error: { root_cause: [], type: 'index_not_found_exception', reason: 'no such index [other]', index: 'other' },
  status: 404,
};

function answer(hits: readonly Ranked[]): object {
  return {
    took: 1,
    timed_out: false,
    _shards: { total: 1, successful: 1, skipped: 0, failed: 0 },
    hits: {
      total: { value: hits.length, relation: 'eq' },
      max_score: hits[0]?.score ?? null,
      hits: hits.map(({ passage: { id, contents }, score }) => ({ _index: COLLECTION, _id: id, _score: score, _source: { contents } })),
    },
    status: 200,
  };
}
