/**
 * A collection of a Qdrant server, over its REST API (`POST /collections/{name}/points/query/batch`, since 1.10): all queries of a search in one request. A point's payload
 * holds the passage, as `contents` or as `title` and `text`, and its id if that differs from the point's.
 */
import { throwIfAborted } from '../core/abort.ts';
import { ConfigError, RetrievalError } from '../core/errors.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import type { Embedder } from './dense/embedder.ts';
import { forDistinctQueries } from './distinct-queries.ts';
import { parseAnswer } from './parsed-answer.ts';
import { parsePassage } from './passage-shapes.ts';
import type { Passage, Retriever, SearchOptions } from './retriever.ts';
import { SearchEndpoint, type SearchEndpointOptions } from './search-endpoint.ts';
import { routeBelow } from './server-route.ts';
import { isUsableKey } from './web-retriever.ts';

export interface QdrantOptions extends SearchEndpointOptions {
  /** Name of the collection on the server; `url` may have a path. */
  readonly collection: string;
  /** Closed together with the retriever. */
  readonly embedder: Embedder;
  /** Text before every query. @default none */
  readonly queryPrefix?: string;
  /** Sent as `api-key`, never logged. @default none */
  readonly apiKey?: string;
}

export class QdrantRetriever implements Retriever {
  readonly name: string;
  readonly #endpoint: SearchEndpoint;
  readonly #options: QdrantOptions;
  #isClosed = false;

  /** Throws ConfigError for an unusable URL, collection or key. */
  constructor(options: QdrantOptions) {
    const { url, collection, apiKey, headers = {} } = options;
    if (apiKey !== undefined && !isUsableKey(apiKey))
      throw new ConfigError('The Qdrant API key contains invalid characters. Correct QDRANT_API_KEY.');
    this.#endpoint = new SearchEndpoint(
      {
        ...options,
        url: routeBelow(url, `collections/${encodeURIComponent(collection)}/points/query/batch`),
        headers: { ...headers, ...(apiKey === undefined ? {} : { 'api-key': apiKey }) },
      },
      { path: '/batch' },
    );
    this.#options = options;
    this.name = `qdrant ${collection} (${this.#endpoint.name.replace(/\/points\/query\/batch$/, '')}, ${options.embedder.model})`;
  }

  /** A blank query has no hits. */
  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    throwIfAborted(signal, `Search of ${this.name} was stopped`);
    if (this.#isClosed) throw new RetrievalError(`The retriever ${this.name} was closed.`);
    const { embedder, queryPrefix = '' } = this.#options;
    return forDistinctQueries(queries, async (asked) => {
      const vectors = await embedder.embed(
        asked.map((query) => queryPrefix + query),
        signal,
      );
      const body = JSON.stringify({ searches: vectors.map((vector) => ({ query: [...vector], limit: topk, with_payload: true })) });
      return this.#endpoint.ask({ body }, (response) => parseAnswer(response.body, (json) => readPoints(json, asked.length)), signal);
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#endpoint.close(), this.#options.embedder.close()]);
  }
}

function readPoints(json: unknown, count: number): Passage[][] | string {
  const { result } = fieldsOf(json);
  if (!Array.isArray(result)) return 'expected {"result": [{"points": [...]}]}';
  if (result.length !== count) return `expected points for each of ${count} queries, got ${result.length}`;
  const lists: Passage[][] = [];
  for (const [q, answer] of result.entries()) {
    const { points } = fieldsOf(answer);
    if (!Array.isArray(points)) return `expected result[${q}].points to be a list`;
    const passages = points.map(passageOf);
    if (!passages.every((passage) => passage !== null)) return `expected the payloads of result[${q}] to hold "contents", or "title" and "text"`;
    lists.push(passages);
  }
  return lists;
}

function passageOf(point: unknown): Passage | null {
  const { id, score, payload } = fieldsOf(point);
  return isObject(payload) ? parsePassage({ document: { id, ...payload }, score }) : null;
}
