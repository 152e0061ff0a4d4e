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
  /** The model and its server; part of every key. */
  readonly identity: string;
  /** Keeps replies between runs. @default none, memory only */
  readonly file?: ReplyFile | null;
  /** Maximum number of replies in memory; the least recently used is evicted first. @default 10000 */
  readonly maxEntries?: number;
  /** Maximum number of characters of replies in memory. @default 2^25 */
  readonly maxCharacters?: number;
}

/**
 * Caches replies to greedy requests. Equal requests in flight share one call, so that a group of rollouts with the same text pays once. Failures and
 * replies that the caller cannot use are not cached, and a caller that aborts does not affect the others.
 */
export function cached(model: TimedModel, options: CachedOptions): TimedModel {
  return new CachedModel(model, options);
}

interface Flight {
  readonly call: SharedFlight<TimedReply>;
  /** True once the call was counted for one caller; for the others the reply counts as cached. The caller that began the call may have left. */
  isCounted: boolean;
}

class CachedModel implements TimedModel {
  readonly name: string;
  readonly #inner: TimedModel;
  readonly #identity: string;
  readonly #file: ReplyFile | null;
  readonly #kept: LRUCache<string, ModelReply>;
  /** The request in flight for each key. */
  readonly #flights = new Map<string, Flight>();

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
    if (kept !== undefined && isUsable(kept, request)) return unasked(kept, askedMs);
    const underWay = this.#flights.get(key);
    const flight = underWay === undefined || underWay.call.isAbandoned ? this.#start(key, messages, request) : underWay;
    const reply = await flight.call.wait(signal).catch((error: unknown) => {
      throw signal.aborted ? cancelled(signal, STOPPED) : error;
    });
    if (flight.isCounted) return unasked(reply, askedMs);
    flight.isCounted = true;
    return reply;
  }

  #start(key: string, messages: readonly Message[], request: ModelRequest): Flight {
    const call = new SharedFlight<TimedReply>(async (signal) => {
      try {
        return await this.#lookUp(key, messages, { ...request, signal });
      } finally {
        // Another flight may have replaced this one after all its callers left.
        if (this.#flights.get(key) === flight) this.#flights.delete(key);
      }
    });
    const flight: Flight = { call, isCounted: false };
    this.#flights.set(key, flight);
    return flight;
  }

  async #lookUp(key: string, messages: readonly Message[], request: ModelRequest): Promise<TimedReply> {
    const askedMs = performance.now();
    const found = (await this.#file?.get(key)) ?? null;
    const onFile = found !== null && isUsable(found, request) ? found : null;
    const reply = onFile === null ? await this.#inner.generate(messages, request) : unasked(onFile, askedMs);
    const { ms: _, waitMs: __, attempts: ___, ...kept } = reply;
    if (!isUsable(kept, request)) return reply;
    this.#kept.set(key, kept);
    if (onFile === null) this.#file?.add(key, this.#identity, reply);
    return reply;
  }
}

function isUsable(reply: ModelReply, request: ModelRequest): boolean {
  return request.isUsable?.(reply) ?? true;
}

/** A reply without a request. */
function unasked(reply: ModelReply, askedMs: number): TimedReply {
  return { ...reply, attempts: 0, ms: performance.now() - askedMs, waitMs: 0 };
}
