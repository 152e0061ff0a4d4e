/**
 * The bytes that callers make a server hold, of every kind: bodies, episodes, answers that nobody reads, frames. One account, so that no caller can fill the memory by
 * several kinds at a time. Counted roughly: two bytes for each character of a text.
 */
import { getHeapStatistics } from 'node:v8';

/** A quarter of what the process may hold, for the values that texts become, and at most 1 GiB. */
function defaultMaxBytes(): number {
  return Math.min(2 ** 30, getHeapStatistics().heap_size_limit / 4);
}

export class HeldBytes {
  readonly maxBytes: number;
  readonly #frees: (() => boolean)[] = [];
  #bytes = 0;

  /** @param maxBytes default a quarter of the heap's limit, at most 1 GiB */
  constructor(maxBytes: number = defaultMaxBytes()) {
    this.maxBytes = maxBytes;
  }

  /** Bytes that are held now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Adds bytes, or takes them back if the number is negative. */
  hold(change: number): void {
    this.#bytes += change;
  }

  /** `free` forgets the oldest of the things that nobody needs, and returns false if there is none. */
  onFull(free: () => boolean): void {
    this.#frees.push(free);
  }

  /** Tells whether that many bytes more may be held, for which things that nobody needs are forgotten. */
  makeRoom(more = 0): boolean {
    const isFull = () => this.#bytes + more > this.maxBytes;
    for (const free of this.#frees) while (isFull() && free());
    return !isFull();
  }

  /** What happened, for a refusal. */
  get fullText(): string {
    return `The server holds ${Math.round(this.#bytes / 2 ** 20)} MiB for its callers, of ${Math.round(this.maxBytes / 2 ** 20)} MiB at most`;
  }
}
