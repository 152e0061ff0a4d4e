/**
 * Who computes what in the next pass. Requests are admitted in the order they came. Those that generate have the first right to a pass, a token each; what is left of it
 * goes to prompts, in chunks, so that a long one holds nobody up. Where blocks run out the youngest makes room and begins again later, with its tokens and its random
 * numbers kept: since no result depends on who else runs, it goes on as if nothing had been. The oldest never makes room, so each request ends.
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
  /** Both in the order of arrival. */
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

  /** Of requests that have begun. */
  get promptTokens(): number {
    return this.#promptTokens;
  }

  get cachedTokens(): number {
    return this.#cachedTokens;
  }

  add(request: ActiveRequest): void {
    this.#waiting.push(request);
  }

  /** Gives back all it holds, running or waiting. */
  remove(request: ActiveRequest): void {
    const list = request.isRunning ? this.#running : this.#waiting;
    const at = list.indexOf(request);
    if (at >= 0) list.splice(at, 1);
    request.isRunning = false;
    request.table.release();
  }

  /** The requests of the next pass, their segments prepared, those of one adapter side by side. Valid until the next call. */
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

  /** Blocks for all tokens of all that run, the oldest first. */
  #reserve(): void {
    for (let i = 0; i < this.#running.length; i++) {
      const request = this.#running[i]!;
      while (request.isRunning && !request.table.reserve(request.length)) this.#preempt();
    }
  }

  /** The youngest makes room. */
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
        // Others need not wait for what it waits for.
        i++;
        continue;
      }
      // Nobody overtakes for want of blocks: a long prompt would wait for ever.
      if (!this.#fits(request, prefix)) return;
      this.#waiting.splice(i, 1);
      this.#start(request, prefix);
      left -= this.#schedule(request, left);
    }
  }

  #fits(request: ActiveRequest, prefix: readonly PrefixNode[]): boolean {
    let idle = 0;
    for (const { block } of prefix) if (this.#pool.isIdle(block)) idle++;
    // A block more for each that runs, so that the newcomer does not have to go again at once.
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

  /** Whether this pass computes more of the request's prefix than the `known` blocks: then it waits for that, rather than computing the same beside it. */
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

/** Keeps the order of arrival. */
function insert(list: ActiveRequest[], request: ActiveRequest): void {
  let at = list.length;
  while (at > 0 && list[at - 1]!.arrival > request.arrival) at--;
  list.splice(at, 0, request);
}

function beginAlike(a: Int32Array, b: Int32Array, count: number): boolean {
  // From the end: beginnings are often alike.
  let n = count;
  while (n > 0 && a[n - 1] === b[n - 1]) n--;
  return n === 0;
}
