/**
 * Clients of servers that find pages by their pictures: DDAI's `POST [{query, id, request_idx}]` and VRAG's `GET ?queries=...&queries=...`, which answer with
 * the paths of image files. Unlike upstream's clients they fail if a server gives no results for a query; upstream's continue as if nothing was found.
 */
import { throwIfAborted } from '../core/abort.ts';
import { isObject } from '../schemas/is-object.ts';
import { parseAnswer } from './parsed-answer.ts';
import { forDistinctQueries } from './distinct-queries.ts';
import type { Passage, Retriever, SearchOptions } from './retriever.ts';
import { SearchEndpoint, type SearchEndpointOptions } from './search-endpoint.ts';

/** Queries in one request (DDAI, search_batch_size). */
const BATCH = 32;
/** The id that DDAI sends for a row that has no number; a `Retriever` does not know the row. */
const NO_ID = '-1';
/** Queries in a URL are cut to this many characters, and a request with several queries holds at most this many bytes of them. */
const LONGEST_IN_URL = 2048;
const MOST_URL_BYTES = 8000;
const LONGEST_NAME = 1024;
/** Far more than a few hundred paths for each of 32 queries. */
const MOST_ANSWER_BYTES = 8 * 2 ** 20;

export interface PageServerOptions extends SearchEndpointOptions {
  readonly form: 'post' | 'get';
  /** The name of a page by the path of its picture. @default the path */
  readonly pageName?: (imageFile: string) => string;
}

/**
 * A retriever of pages: a passage's id is the page's name, and its contents too, because the servers give no text. Three attempts by default, with delays of
 * 0.5 and 1 s, less up to half (DDAI).
 */
export class PageServer implements Retriever {
  readonly name: string;
  readonly #endpoint: SearchEndpoint;
  readonly #form: 'post' | 'get';
  readonly #pageName: (imageFile: string) => string;

  /** Throws ConfigError for an unusable URL. A URL without a path gets `/search`. */
  constructor({ form, pageName = (imageFile) => imageFile, ...options }: PageServerOptions) {
    this.#endpoint = new SearchEndpoint({ maxRetries: 2, maxResponseBytes: MOST_ANSWER_BYTES, ...options }, { path: '/search' });
    this.name = this.#endpoint.name;
    this.#form = form;
    this.#pageName = pageName;
  }

  /** A blank query has no hits and sends no request. */
  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    throwIfAborted(signal);
    return forDistinctQueries(queries, async (asked) => {
      const batches = this.#form === 'post' ? batchesOf(asked) : urlBatches(asked);
      const answers = await Promise.all(batches.map((batch) => this.#ask(batch, signal)));
      return answers.flat().map((passages) => passages.slice(0, topk));
    });
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  #ask(queries: readonly string[], signal: AbortSignal): Promise<readonly (readonly Passage[])[]> {
    const body = JSON.stringify(queries.map((query, i) => ({ query, id: NO_ID, request_idx: i })));
    const query = queries.map((text) => `queries=${encodeURIComponent(cut(text))}`).join('&');
    const read = this.#form === 'post' ? postedLists : listedLists;
    return this.#endpoint.ask(
      this.#form === 'post' ? { body } : { query },
      (response) => parseAnswer(response.body, (json) => this.#passages(read(json, queries.length))),
      signal,
    );
  }

  /** Keeps the first occurrence of every page. */
  #passages(lists: readonly unknown[] | string): Passage[][] | string {
    if (typeof lists === 'string') return lists;
    const passages: Passage[][] = [];
    for (const [q, list] of lists.entries()) {
      if (!Array.isArray(list)) return `expected the results of query ${q} to be a list`;
      const names = new Set<string>();
      for (const [i, hit] of list.entries()) {
        const name = this.#nameOf(hit);
        if (name === null) return `expected result ${i} of query ${q} to be {"image_file": a path of at most ${LONGEST_NAME} characters}`;
        names.add(name);
      }
      passages.push([...names].map((id) => ({ id, contents: id })));
    }
    return passages;
  }

  #nameOf(hit: unknown): string | null {
    const file = isObject(hit) ? hit['image_file'] : undefined;
    if (typeof file !== 'string' || file.length > LONGEST_NAME) return null;
    const name = this.#pageName(file);
    return name === '' ? null : name;
  }
}

/** DDAI's `[{request_idx, results}]` in any order, as lists by query. */
function postedLists(json: unknown, count: number): readonly unknown[] | string {
  const expected = 'expected [{"request_idx": number, "results": [{"image_file": path}]}] with one entry for each query';
  if (!Array.isArray(json) || json.length !== count) return expected;
  const lists = new Map<unknown, unknown>(json.map((entry: unknown) => (isObject(entry) ? [entry['request_idx'], entry['results']] : [null, null])));
  const byQuery = Array.from({ length: count }, (_, i) => lists.get(i));
  return byQuery.includes(undefined) ? expected : byQuery;
}

/** VRAG's lists, one for each query. */
function listedLists(json: unknown, count: number): readonly unknown[] | string {
  return Array.isArray(json) && json.length === count ? json : 'expected [[{"image_file": path}, ...], ...] with one list for each query';
}

function batchesOf(queries: readonly string[]): string[][] {
  return Array.from({ length: Math.ceil(queries.length / BATCH) }, (_, b) => queries.slice(b * BATCH, (b + 1) * BATCH));
}

/** Batches that a URL can hold. */
function urlBatches(queries: readonly string[]): string[][] {
  const batches: string[][] = [];
  let bytes = 0;
  for (const query of queries) {
    const more = encodeURIComponent(cut(query)).length;
    const last = batches.at(-1);
    if (last === undefined || last.length === BATCH || bytes + more > MOST_URL_BYTES) {
      batches.push([query]);
      bytes = more;
    } else {
      last.push(query);
      bytes += more;
    }
  }
  return batches;
}

function cut(query: string): string {
  return query.slice(0, LONGEST_IN_URL).toWellFormed();
}
