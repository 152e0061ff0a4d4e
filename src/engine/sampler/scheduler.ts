/**
 * Decides what the next pass computes. Requests are admitted in order of arrival. Decoding requests come first, one token each; the rest of the pass goes to prompts, in
 * chunks, so that a long prompt does not delay other requests. If blocks run out, the youngest request is preempted: it keeps its tokens and random numbers and is recomputed later.
 * Its result is the same, because results do not depend on other requests. The oldest is never preempted, so every request ends.
 */
import type { ForwardLimits } from '../compute/forward-types.ts';
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import type { ActiveRequest } from './active-request.ts';
import type { BlockPool } from './block-pool.ts';
import { blocksFor } from './block-table.ts';
import type { PrefixNode } from './prefix-tree.ts';

export class Scheduler {
  readonly #pool: BlockPool;
  readonly #rows: number;
  /** Both in order of arrival. */
  readonly #running: ActiveRequest[] = [];
  readonly #waiting: ActiveRequest[] = [];
  readonly #planned: ActiveRequest[] = [];
  #preemptions = 0;
  #promptTokens = 0;
  #cachedTokens = 0;

  constructor(pool: BlockPool, limits: ForwardLimits) {
    this.#pool = pool;
    this.#rows = limits.rows;
  }

  get running(): number {
    return this.#running.length;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get preemptions(): number {
    return this.#preemptions;
  }

  /** Counts requests that have started. */
  get promptTokens(): number {
    return this.#promptTokens;
  }

  get cachedTokens(): number {
    return this.#cachedTokens;
  }

  add(request: ActiveRequest): void {
    this.#waiting.push(request);
  }

  /** Removes a running or waiting request and releases its blocks. */
  remove(request: ActiveRequest): void {
    const list = request.isRunning ? this.#running : this.#waiting;
    const at = list.indexOf(request);
    if (at >= 0) list.splice(at, 1);
    request.isRunning = false;
    request.table.release();
  }

  /** The requests of the next pass with prepared segments, grouped by adapter. Valid until the next call. */
  plan(): readonly ActiveRequest[] {
    this.#planned.length = 0;
    this.#reserve();
    let rows = this.#rows;
    for (const request of this.#running) if (request.remaining === 1) rows -= this.#schedule(request, 1);
    for (const request of this.#running) if (request.remaining > 1 && rows > 0) rows -= this.#schedule(request, rows);
    this.#admit(rows);
    this.#sortByAdapter();
    return this.#planned;
  }

  /** Reserves blocks for all tokens of all running requests, the oldest first. */
  #reserve(): void {
    for (let i = 0; i < this.#running.length; i++) {
      const request = this.#running[i]!;
      while (request.isRunning && !request.table.reserve(request.length)) this.#preempt();
    }
  }

  /** Preempts the youngest request. */
  #preempt(): void {
    const youngest = this.#running.pop()!;
    youngest.isRunning = false;
    youngest.table.release();
    insert(this.#waiting, youngest);
    this.#preemptions++;
  }

  #schedule(request: ActiveRequest, rows: number): number {
    this.#planned.push(request);
    return request.prepare(rows);
  }

  #admit(rows: number): void {
    let left = rows;
    for (let i = 0; i < this.#waiting.length && left > 0 && this.#running.length < this.#rows;) {
      const request = this.#waiting[i]!;
      const prefix = this.#pool.find(request.scope, request.tokens, Math.floor(request.readable / BLOCK_TOKENS));
      if (this.#isBeingWritten(request, prefix.length)) {
        // Others need not wait for this prefix.
        i++;
        continue;
      }
      // Smaller requests may not overtake, or a long prompt might never start.
      if (!this.#fits(request, prefix)) return;
      this.#waiting.splice(i, 1);
      this.#start(request, prefix);
      left -= this.#schedule(request, left);
    }
  }

  #fits(request: ActiveRequest, prefix: readonly PrefixNode[]): boolean {
    let idle = 0;
    for (const { block } of prefix) if (this.#pool.isIdle(block)) idle++;
    // One more block per running request, so that the new one is not preempted at once.
    return blocksFor(request.length) - prefix.length + this.#running.length <= this.#pool.available - idle;
  }

  #start(request: ActiveRequest, prefix: readonly PrefixNode[]): void {
    request.table.adopt(prefix);
    request.table.reserve(request.length);
    request.computed = prefix.length * BLOCK_TOKENS;
    request.isRunning = true;
    insert(this.#running, request);
    if (request.cachedTokens !== null) return;
    request.cachedTokens = request.computed;
    this.#promptTokens += request.promptLength;
    this.#cachedTokens += request.cachedTokens;
  }

  /** Tells whether a running request is computing the block after the `known` ones. The request then waits for it instead of computing the same block. */
  #isBeingWritten(request: ActiveRequest, known: number): boolean {
    const end = (known + 1) * BLOCK_TOKENS;
    if (end > request.readable) return false;
    const { adapter, salt } = request.scope;
    return this.#running.some(({ scope, computed, length, table, tokens }) => {
      if (computed >= end || length < end || !table.isListing || scope.adapter !== adapter || scope.salt !== salt) return false;
      return beginAlike(tokens, request.tokens, end);
    });
  }

  #sortByAdapter(): void {
    const planned = this.#planned;
    for (let i = 1; i < planned.length; i++) {
      if (planned[i]!.scope.adapter >= planned[i - 1]!.scope.adapter) continue;
      planned.sort((a, b) => a.scope.adapter - b.scope.adapter);
      return;
    }
  }
}

/** Inserts in order of arrival. */
function insert(list: ActiveRequest[], request: ActiveRequest): void {
  let at = list.length;
  while (at > 0 && list[at - 1]!.arrival > request.arrival) at--;
  list.splice(at, 0, request);
}

function beginAlike(a: Int32Array, b: Int32Array, count: number): boolean {
  // Compares from the end, because beginnings are often alike.
  let n = count;
  while (n > 0 && a[n - 1] === b[n - 1]) n--;
  return n === 0;
}
