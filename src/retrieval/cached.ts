import { LRUCache } from 'lru-cache';
import { abortError } from '../core/abort.ts';
import { ConfigError } from '../core/errors.ts';
import type { Passage, Retriever, SearchOptions } from './retriever.ts';
import { SharedFlight } from '../core/shared-flight.ts';

export interface CacheOptions {
  /** Maximum of cached lists; the least recently used is evicted first. Three passages take about 2 KB. @default 20000 */
  readonly maxEntries?: number;
  /** Maximum of cached characters, queries and passages together, so that a few huge queries cannot fill the memory. @default 2^26, at most 128 MiB */
  readonly maxCharacters?: number;
}

/**
 * Caches the passages of each (query, topk). Concurrent searches for the same query share one request, so a group of rollouts pays once.
 * Failures are not cached, and a caller that aborts does not affect the others.
 */
export function cached(retriever: Retriever, options: CacheOptions = {}): Retriever {
  const { maxEntries = 20_000, maxCharacters = 2 ** 26 } = options;
  for (const [name, value] of Object.entries({ maxEntries, maxCharacters }))
    if (!(Number.isInteger(value) && value >= 1)) throw new ConfigError(`${name} must be an integer of at least 1, got ${value}.`);
  return new CachedRetriever(retriever, { maxEntries, maxCharacters });
}

type Lists = ReadonlyMap<string, readonly Passage[]>;

class CachedRetriever implements Retriever {
  readonly name: string;
  readonly #inner: Retriever;
  readonly #kept: LRUCache<string, readonly Passage[]>;
  /** The running request for each key. */
  readonly #flights = new Map<string, SharedFlight<Lists>>();

  constructor(inner: Retriever, { maxEntries, maxCharacters }: Required<CacheOptions>) {
    this.name = inner.name;
    this.#inner = inner;
    this.#kept = new LRUCache({ max: maxEntries, maxSize: maxCharacters, sizeCalculation: characters });
  }

  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    if (signal.aborted) throw abortError(signal);
    const found = new Map<string, readonly Passage[]>();
    const joined = new Set<SharedFlight<Lists>>();
    const missing = new Set<string>();
    for (const query of queries) {
      const kept = this.#kept.get(cacheKey(query, topk));
      const flight = this.#flights.get(cacheKey(query, topk));
      if (kept !== undefined) found.set(query, kept);
      else if (flight !== undefined && !flight.isAbandoned) joined.add(flight);
      else missing.add(query);
    }
    if (missing.size > 0) joined.add(this.#request([...missing], topk));
    for (const lists of await Promise.all([...joined].map((flight) => flight.wait(signal))))
      for (const [query, list] of lists) found.set(query, list);
    return queries.map((query) => found.get(query)!);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  #request(queries: readonly string[], topk: number): SharedFlight<Lists> {
    const flight = new SharedFlight<Lists>(async (signal) => {
      try {
        const lists = await this.#inner.search(queries, { topk, signal });
        const found = new Map(queries.map((query, i) => [query, lists[i]!]));
        for (const [query, list] of found) this.#kept.set(cacheKey(query, topk), list);
        return found;
      } finally {
        // A new flight may have replaced one that all callers left.
        for (const query of queries) if (this.#flights.get(cacheKey(query, topk)) === flight) this.#flights.delete(cacheKey(query, topk));
      }
    });
    for (const query of queries) this.#flights.set(cacheKey(query, topk), flight);
    return flight;
  }
}

function characters(passages: readonly Passage[], key: string): number {
  return passages.reduce((sum, { contents }) => sum + contents.length, key.length);
}

function cacheKey(query: string, topk: number): string {
  return `${topk} ${query}`;
}
