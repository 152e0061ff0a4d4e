import { LRUCache } from 'lru-cache';
import { cancelled, throwIfAborted } from '../core/abort.ts';
import type { Message } from '../core/message.ts';
import type { ModelReply, ModelRequest } from '../core/model.ts';
import { SharedFlight } from '../core/shared-flight.ts';
import type { ReplyFile } from './reply-file.ts';
import { replyKey } from './reply-key.ts';
import type { TimedModel, TimedReply } from './timed-model.ts';

const STOPPED = 'Stopped before the model answered';

export interface CachedOptions {
  /** Who answers, and where: part of every key. */
  readonly identity: string;
  /** Keeps replies between runs. @default memory alone */
  readonly file?: ReplyFile | null;
  /** Replies kept in memory, least recently used first to go. @default 10000 */
  readonly maxEntries?: number;
  /** Characters of replies kept in memory. @default 2^25 */
  readonly maxCharacters?: number;
}

/**
 * Answers a greedy request from the replies that it has seen. Equal requests under way share one, so that a group of rollouts with the same text
 * pays once. Failures are never kept, and a caller that aborts leaves the others alone.
 */
export function cached(model: TimedModel, options: CachedOptions): TimedModel {
  return new CachedModel(model, options);
}

class CachedModel implements TimedModel {
  readonly name: string;
  readonly #inner: TimedModel;
  readonly #identity: string;
  readonly #file: ReplyFile | null;
  readonly #kept: LRUCache<string, ModelReply>;
  /** The request under way for each key. */
  readonly #flights = new Map<string, SharedFlight<TimedReply>>();

  constructor(inner: TimedModel, { identity, file = null, maxEntries = 10_000, maxCharacters = 2 ** 25 }: CachedOptions) {
    this.name = inner.name;
    this.#inner = inner;
    this.#identity = identity;
    this.#file = file;
    this.#kept = new LRUCache({ max: maxEntries, maxSize: maxCharacters, sizeCalculation: ({ text }) => text.length + 64 });
  }

  async generate(messages: readonly Message[], request: ModelRequest): Promise<TimedReply> {
    const key = replyKey(this.#identity, messages, request);
    if (key === null) return this.#inner.generate(messages, request);
    const { signal } = request;
    throwIfAborted(signal, STOPPED);
    const askedMs = performance.now();
    const kept = this.#kept.get(key);
    if (kept !== undefined) return unasked(kept, askedMs);
    const underWay = this.#flights.get(key);
    const isShared = underWay !== undefined && !underWay.isAbandoned;
    const flight = isShared ? underWay : this.#start(key, messages, request);
    const reply = await flight.wait(signal).catch((error: unknown) => {
      throw signal.aborted ? cancelled(signal, STOPPED) : error;
    });
    return isShared ? unasked(reply, askedMs) : reply;
  }

  #start(key: string, messages: readonly Message[], request: ModelRequest): SharedFlight<TimedReply> {
    const flight = new SharedFlight<TimedReply>(async (signal) => {
      try {
        return await this.#lookUp(key, messages, { ...request, signal });
      } finally {
        // Another flight may have taken the place of one that everybody left.
        if (this.#flights.get(key) === flight) this.#flights.delete(key);
      }
    });
    this.#flights.set(key, flight);
    return flight;
  }

  async #lookUp(key: string, messages: readonly Message[], request: ModelRequest): Promise<TimedReply> {
    const askedMs = performance.now();
    const onFile = (await this.#file?.get(key)) ?? null;
    const reply = onFile === null ? await this.#inner.generate(messages, request) : unasked(onFile, askedMs);
    const { text, usage, finish, version } = reply;
    this.#kept.set(key, { text, usage, finish, version });
    if (onFile === null) this.#file?.add(key, this.#identity, reply);
    return reply;
  }
}

/** A reply that no request was sent for. */
function unasked({ text, usage, finish, version }: ModelReply, askedMs: number): TimedReply {
  return { text, usage, finish, version, attempts: 0, ms: performance.now() - askedMs, waitMs: 0 };
}
