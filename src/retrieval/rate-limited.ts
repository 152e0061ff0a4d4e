/** A decorator that spaces requests out. Requests that come faster wait in a queue of bounded length. */
import { setTimeout as sleep } from 'node:timers/promises';
import { abortError, throwIfAborted } from '../core/abort.ts';
import { ConfigError, RetrievalError } from '../core/errors.ts';
import { Limiter } from '../core/limiter.ts';
import { timerMs } from '../core/timers.ts';
import type { Passage, Retriever, SearchOptions } from './retriever.ts';

export interface RateLimitOptions {
  /** Searches that may start in a second, evenly spaced; above 0. Infinity is no limit. */
  readonly perSecond: number;
  /** Number of searches that may wait for their turn; a further one fails at once, retryable. @default 1000 */
  readonly maxQueued?: number;
}

/** Throws ConfigError for a rate that is not above 0, or a queue that is not an integer of at least 0. */
export function rateLimited(retriever: Retriever, options: RateLimitOptions): Retriever {
  const { perSecond, maxQueued = 1000 } = options;
  if (!(perSecond > 0)) throw new ConfigError(`The rate must be above 0 searches per second, got ${perSecond}.`);
  if (!(Number.isInteger(maxQueued) && maxQueued >= 0)) throw new ConfigError(`maxQueued must be an integer of at least 0, got ${maxQueued}.`);
  return new RateLimitedRetriever(retriever, 1000 / perSecond, maxQueued);
}

class RateLimitedRetriever implements Retriever {
  readonly name: string;
  readonly #inner: Retriever;
  readonly #intervalMs: number;
  readonly #maxQueued: number;
  /** The caller that holds it is next. */
  readonly #turns = new Limiter(1);
  #nextAtMs = 0;

  constructor(inner: Retriever, intervalMs: number, maxQueued: number) {
    this.name = inner.name;
    this.#inner = inner;
    this.#intervalMs = intervalMs;
    this.#maxQueued = maxQueued;
  }

  async search(queries: readonly string[], { topk, signal }: SearchOptions): Promise<readonly (readonly Passage[])[]> {
    throwIfAborted(signal, 'Stopped before the search');
    if (this.#turns.active + this.#turns.waiting + queries.length > this.#maxQueued + 1)
      throw new RetrievalError(`${this.#maxQueued} searches already wait for ${this.name}. Lower the concurrency, or raise the rate or the queue.`, {
        retryable: true,
      });
    // One request for each query, because the limit of a web engine counts queries.
    const lists = await Promise.all(queries.map((query) => this.#searchOne(query, topk, signal)));
    return lists.map(([list]) => list!);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  async #searchOne(query: string, topk: number, signal: AbortSignal): Promise<readonly (readonly Passage[])[]> {
    await this.#turns.run(() => this.#turn(signal), signal);
    return this.#inner.search([query], { topk, signal });
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const waitMs = this.#nextAtMs - performance.now();
    if (waitMs > 0) {
      await sleep(timerMs(waitMs), undefined, { signal }).catch(() => {
        throw abortError(signal);
      });
    }
    this.#nextAtMs = Math.max(this.#nextAtMs, performance.now()) + this.#intervalMs;
  }
}
