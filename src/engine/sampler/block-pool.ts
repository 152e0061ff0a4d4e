/**
 * The blocks of one thread's key-value cache: who holds them, and which full ones can be used again. A block is free, held by one or more requests, or idle: held by
 * nobody, but still of use to a request that begins with the same tokens. Idle ones are given up in the order of their last use.
 */
import { type PrefixNode, PrefixTree } from './prefix-tree.ts';

/** Whose prefixes may be shared. */
export interface PrefixScope {
  /** The adapter's number; 0 is the base. */
  readonly adapter: number;
  readonly salt: string | null;
}

export class BlockPool {
  /** How many there are. */
  readonly size: number;
  readonly #tree = new PrefixTree();
  readonly #holders: Int32Array;
  readonly #nodes: (PrefixNode | null)[];
  /** A stack; `#freeCount` are on it. */
  readonly #free: Int32Array;
  #freeCount: number;
  /** Idle blocks, a ring in both directions, longest unused first; its head is number `size`. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  #idleCount = 0;

  constructor(size: number) {
    this.size = size;
    this.#holders = new Int32Array(size);
    this.#nodes = Array.from({ length: size }, () => null);
    // The lowest number is handed out first.
    this.#free = Int32Array.from({ length: size }, (_, i) => size - 1 - i);
    this.#freeCount = size;
    this.#next = new Int32Array(size + 1).fill(size);
    this.#previous = new Int32Array(size + 1).fill(size);
  }

  /** Held by requests. */
  get used(): number {
    return this.size - this.available;
  }

  /** What `take` can hand out before it fails. */
  get available(): number {
    return this.#freeCount + this.#idleCount;
  }

  isIdle(block: number): boolean {
    return this.#holders[block] === 0 && this.#nodes[block] !== null;
  }

  holders(block: number): number {
    return this.#holders[block]!;
  }

  /** A block of one's own, with anything in it; -1 where all are held. */
  take(): number {
    if (this.#freeCount === 0) {
      if (this.#idleCount === 0) return -1;
      this.#unlist(this.#nodes[this.#next[this.size]!]!);
    }
    const block = this.#free[--this.#freeCount]!;
    this.#holders[block] = 1;
    return block;
  }

  /** One more holder of a block that `find` returned or that is held already. */
  hold(block: number): void {
    if (this.isIdle(block)) this.#leaveIdle(block);
    this.#holders[block]!++;
  }

  release(block: number): void {
    const holders = this.#holders[block]!;
    if (holders === 0) throw new RangeError(`expected a block that is held, got ${block}`);
    this.#holders[block] = holders - 1;
    if (holders > 1) return;
    if (this.#nodes[block] === null) this.#free[this.#freeCount++] = block;
    else this.#becomeIdle(block);
  }

  /** The blocks that hold a prefix of the tokens, `limit` blocks at most. */
  find(scope: PrefixScope, tokens: Int32Array, limit: number): PrefixNode[] {
    return this.#tree.find(scope.adapter, scope.salt, tokens, limit);
  }

  root(scope: PrefixScope): PrefixNode {
    return this.#tree.root(scope.adapter, scope.salt);
  }

  /** Offers a held block, which holds block `index` of the tokens, to others. Returns the node that the next block goes below; null where the chain is forgotten. */
  list(parent: PrefixNode, tokens: Int32Array, index: number, block: number): PrefixNode | null {
    const node = this.#tree.list(parent, tokens, index, block);
    if (node?.block === block) this.#nodes[block] = node;
    return node;
  }

  /** Offers the block no longer, nor any that continues it. */
  forget(block: number): void {
    const node = this.#nodes[block];
    if (node !== null && node !== undefined) this.#unlist(node);
  }

  forgetAdapter(adapter: number): void {
    this.#tree.removeAdapter(adapter, this.#unlisted);
  }

  #unlist(node: PrefixNode): void {
    this.#tree.remove(node, this.#unlisted);
  }

  readonly #unlisted = (block: number): void => {
    if (this.isIdle(block)) {
      this.#leaveIdle(block);
      this.#free[this.#freeCount++] = block;
    }
    this.#nodes[block] = null;
  };

  #becomeIdle(block: number): void {
    const last = this.#previous[this.size]!;
    this.#next[last] = block;
    this.#previous[block] = last;
    this.#next[block] = this.size;
    this.#previous[this.size] = block;
    this.#idleCount++;
  }

  #leaveIdle(block: number): void {
    this.#next[this.#previous[block]!] = this.#next[block]!;
    this.#previous[this.#next[block]!] = this.#previous[block]!;
    this.#idleCount--;
  }
}
