import { abortError } from '../core/abort.ts';
import { CancelledError, ConfigError } from '../core/errors.ts';
import type { Passage, Retriever, SearchOptions } from './retriever.ts';
import { SharedFlight } from '../core/shared-flight.ts';
import { timerMs } from '../core/timers.ts';

export interface BatchOptions {
  /** Maximum of queries in one request; a single search with more is sent alone and undivided. @default 128 */
  readonly maxBatch?: number;
  /** The time for which the first search of a batch waits for others, in milliseconds; 0 waits for the rest of this turn of the event loop. @default 2 */
  readonly maxDelayMs?: number;
}

/**
 * Merges concurrent searches with the same `topk` into one request, as upstream's client does with the queries of a turn, and returns each
 * caller's own lists. A failed request fails all its callers with the same error; a caller that aborts does not affect the others.
 */
export function batched(retriever: Retriever, options: BatchOptions = {}): Retriever {
  const { maxBatch = 128, maxDelayMs = 2 } = options;
  if (!(maxBatch >= 1)) throw new ConfigError(`maxBatch must be at least 1, got ${maxBatch}.`);
  if (!(maxDelayMs >= 0)) throw new ConfigError(`maxDelayMs must be at least 0, got ${maxDelayMs}.`);
  return new BatchedRetriever(retriever, maxBatch, maxDelayMs);
}

class BatchedRetriever implements Retriever {
  readonly name: string;
  readonly #inner: Retriever;
  readonly #maxBatch: number;
  readonly #maxDelayMs: number;
  /** For each `topk`, the batch that still accepts queries. */
  readonly #boarding = new Map<number, Batch>();

  constructor(inner: Retriever, maxBatch: number, maxDelayMs: number) {
    this.name = inner.name;
    this.#inner = inner;
    this.#maxBatch = maxBatch;
    this.#maxDelayMs = maxDelayMs;
  }

  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    if (signal.aborted) throw abortError(signal);
    if (queries.length === 0) return [];
    let batch = this.#boarding.get(topk);
    if (batch !== undefined && batch.size + queries.length > this.#maxBatch) batch.depart();
    if (batch === undefined || !batch.isBoarding) {
      batch = new Batch(this.#inner, topk, this.#maxDelayMs);
      this.#boarding.set(topk, batch);
    }
    const answer = batch.join(queries, signal);
    if (batch.size >= this.#maxBatch) batch.depart();
    return answer;
  }

  /** Unsent searches reject with CancelledError. */
  async close(): Promise<void> {
    for (const batch of this.#boarding.values()) batch.cancel(new CancelledError('The retriever was closed by its owner'));
    this.#boarding.clear();
    await this.#inner.close();
  }
}

interface Member {
  readonly queries: readonly string[];
  /** Index of its first query in the request. */
  offset: number;
}

class Batch {
  readonly #members = new Set<Member>();
  readonly #flight: SharedFlight<readonly (readonly Passage[])[]>;
  readonly #departure = Promise.withResolvers<void>();
  readonly #timer: NodeJS.Timeout;
  #departed = false;
  #size = 0;

  constructor(inner: Retriever, topk: number, maxDelayMs: number) {
    this.#timer = setTimeout(() => this.depart(), timerMs(maxDelayMs));
    this.#departure.promise.catch(() => {});
    this.#flight = new SharedFlight(async (signal) => {
      await this.#departure.promise;
      return inner.search(this.#seat(), { topk, signal });
    });
  }

  /** Number of queries. */
  get size(): number {
    return this.#size;
  }

  get isBoarding(): boolean {
    return !this.#departed && !this.#flight.isAbandoned;
  }

  async join(queries: readonly string[], signal: AbortSignal): Promise<readonly (readonly Passage[])[]> {
    const member: Member = { queries, offset: 0 };
    this.#members.add(member);
    this.#size += queries.length;
    try {
      const lists = await this.#flight.wait(signal);
      return lists.slice(member.offset, member.offset + queries.length);
    } finally {
      if (this.#members.delete(member)) this.#size -= queries.length;
    }
  }

  depart(): void {
    this.#departed = true;
    clearTimeout(this.#timer);
    this.#departure.resolve();
  }

  cancel(error: CancelledError): void {
    this.#departed = true;
    clearTimeout(this.#timer);
    this.#departure.reject(error);
  }

  /** Assigns every waiting member its place in the request; the request is empty if all have left. */
  #seat(): string[] {
    const queries: string[] = [];
    for (const member of this.#members) {
      member.offset = queries.length;
      for (const query of member.queries) queries.push(query);
    }
    return queries;
  }
}
