/**
 * An index of an OpenSearch server, over its REST API (`POST /{index}/_msearch`): all queries of a search in one request. A search by words is Lucene's BM25, with
 * the similarity and the analyzer of the index; a search by vectors is its k-NN. A document's `_source` holds the passage, as `contents` or as `title` and `text`.
 * Elasticsearch answers searches by words, too.
 */
import { throwIfAborted } from '../core/abort.ts';
import { RetrievalError } from '../core/errors.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import type { Embedder } from './dense/embedder.ts';
import { forDistinctQueries } from './distinct-queries.ts';
import { parseAnswer } from './parsed-answer.ts';
import { parsePassage } from './passage-shapes.ts';
import type { Passage, Retriever, SearchOptions } from './retriever.ts';
import { SearchEndpoint, type SearchEndpointOptions } from './search-endpoint.ts';
import { routeBelow } from './server-route.ts';

export interface OpenSearchOptions extends SearchEndpointOptions {
  readonly index: string;
  /** The field that is searched. @default `contents`, or `vector` with an embedder */
  readonly field?: string;
  /** Searches by vectors; closed together with the retriever. @default by words */
  readonly embedder?: Embedder;
  /** Text before every query that is embedded. @default none */
  readonly queryPrefix?: string;
}

/** Longer queries are cut: a clause for each word, and a server takes about a thousand. */
const LONGEST_QUERY = 2048;

export class OpenSearchRetriever implements Retriever {
  readonly name: string;
  readonly #endpoint: SearchEndpoint;
  readonly #options: OpenSearchOptions;
  #isClosed = false;

  /** Throws ConfigError for an unusable URL. */
  constructor(options: OpenSearchOptions) {
    const { url, index, embedder, headers = {} } = options;
    this.#endpoint = new SearchEndpoint(
      { ...options, url: routeBelow(url, `${encodeURIComponent(index)}/_msearch`), headers: { ...headers, 'content-type': 'application/x-ndjson' } },
      { path: '/_msearch' },
    );
    this.#options = options;
    this.name = `opensearch ${index} (${this.#endpoint.name.replace(/\/_msearch$/, '')}${embedder === undefined ? '' : `, ${embedder.model}`})`;
  }

  /** A blank query has no hits. */
  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    throwIfAborted(signal, `Search of ${this.name} was stopped`);
    if (this.#isClosed) throw new RetrievalError(`The retriever ${this.name} was closed.`);
    return forDistinctQueries(queries, async (asked) => {
      const clauses = await this.#clauses(asked, topk, signal);
      // Vectors are not sent back.
      const source = { excludes: [this.#options.embedder === undefined ? 'vector' : this.#field] };
      const body = clauses.map((query) => `{}\n${JSON.stringify({ size: topk, query, _source: source })}\n`).join('');
      return this.#endpoint.ask({ body }, (response) => parseAnswer(response.body, (json) => readResponses(json, asked.length)), signal);
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#endpoint.close(), this.#options.embedder?.close()]);
  }

  get #field(): string {
    return this.#options.field ?? (this.#options.embedder === undefined ? 'contents' : 'vector');
  }

  async #clauses(queries: readonly string[], topk: number, signal: AbortSignal): Promise<readonly object[]> {
    const { embedder, queryPrefix = '' } = this.#options;
    if (embedder === undefined)
      return queries.map((query) => ({ match: { [this.#field]: { query: query.slice(0, LONGEST_QUERY).toWellFormed() } } }));
    const vectors = await embedder.embed(
      queries.map((query) => queryPrefix + query),
      signal,
    );
    return vectors.map((vector) => ({ knn: { [this.#field]: { vector: [...vector], k: topk } } }));
  }
}

/** One search of several may fail, with the status 200 for all. */
function readResponses(json: unknown, count: number): Passage[][] | string {
  const { responses } = fieldsOf(json);
  if (!Array.isArray(responses)) return 'expected {"responses": [{"hits": {"hits": [...]}}]}';
  if (responses.length !== count) return `expected an answer to each of ${count} queries, got ${responses.length}`;
  const lists: Passage[][] = [];
  for (const [q, response] of responses.entries()) {
    const { error, hits, timed_out: timedOut, _shards: shards } = fieldsOf(response);
    if (error !== undefined) return `query ${q} failed: ${JSON.stringify(fieldsOf(error)['reason'] ?? error).slice(0, 200)}`;
    // Hits of some shards only would look like an answer.
    if (timedOut === true || Number(fieldsOf(shards)['failed'] ?? 0) > 0) return `query ${q} was not answered by all shards`;
    const list = fieldsOf(hits)['hits'];
    if (!Array.isArray(list)) return `expected responses[${q}].hits.hits to be a list`;
    const passages = list.map(passageOf);
    if (!passages.every((passage) => passage !== null)) return `expected the sources of responses[${q}] to hold "contents", or "title" and "text"`;
    lists.push(passages);
  }
  return lists;
}

function passageOf(hit: unknown): Passage | null {
  const { _id: id, _score: score, _source: source } = fieldsOf(hit);
  return isObject(source) ? parsePassage({ document: { id, ...source }, score }) : null;
}
