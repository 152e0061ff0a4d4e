/**
 * The blocks of one thread's key-value cache: who holds them, and which full ones can be reused. A block is free, held by one or more requests, or idle: held by none,
 * but reusable by a request with the same prefix. Idle blocks are evicted in the order of their last use.
 */
import { type PrefixNode, PrefixTree } from './prefix-tree.ts';

/** Requests with the same scope share prefixes. */
export interface PrefixScope {
  /** Id of the adapter; 0 is the base model. */
  readonly adapter: number;
  readonly salt: string | null;
}

export class BlockPool {
  /** Number of blocks. */
  readonly size: number;
  readonly #tree = new PrefixTree();
  readonly #holders: Int32Array;
  readonly #nodes: (PrefixNode | null)[];
  /** A stack of `#freeCount` free blocks. */
  readonly #free: Int32Array;
  #freeCount: number;
  /** Idle blocks as a doubly linked ring, least recently used first; its head is index `size`. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  #idleCount = 0;

  constructor(size: number) {
    this.size = size;
    this.#holders = new Int32Array(size);
    this.#nodes = Array.from({ length: size }, () => null);
    // `take` returns the lowest number first.
    this.#free = Int32Array.from({ length: size }, (_, i) => size - 1 - i);
    this.#freeCount = size;
    this.#next = new Int32Array(size + 1).fill(size);
    this.#previous = new Int32Array(size + 1).fill(size);
  }

  /** Blocks held by requests. */
  get used(): number {
    return this.size - this.available;
  }

  /** Number of blocks that `take` can return before it fails. */
  get available(): number {
    return this.#freeCount + this.#idleCount;
  }

  isIdle(block: number): boolean {
    return this.#holders[block] === 0 && this.#nodes[block] !== null;
  }

  holders(block: number): number {
    return this.#holders[block]!;
  }

  /** Takes an unshared block with arbitrary contents; -1 if all are held. */
  take(): number {
    if (this.#freeCount === 0) {
      if (this.#idleCount === 0) return -1;
      this.#unlist(this.#nodes[this.#next[this.size]!]!);
    }
    const block = this.#free[--this.#freeCount]!;
    this.#holders[block] = 1;
    return block;
  }

  /** Adds a holder to a block that `find` returned or that is already held. */
  hold(block: number): void {
    if (this.isIdle(block)) this.#leaveIdle(block);
    this.#holders[block]!++;
  }

  release(block: number): void {
    const holders = this.#holders[block]!;
    if (holders === 0) throw new RangeError(`block ${block} was released, but is not held`);
    this.#holders[block] = holders - 1;
    if (holders > 1) return;
    if (this.#nodes[block] === null) this.#free[this.#freeCount++] = block;
    else this.#becomeIdle(block);
  }

  /** The blocks that hold the longest cached prefix of the tokens, at most `limit`. */
  find(scope: PrefixScope, tokens: Int32Array, limit: number): PrefixNode[] {
    return this.#tree.find(scope.adapter, scope.salt, tokens, limit);
  }

  root(scope: PrefixScope): PrefixNode {
    return this.#tree.root(scope.adapter, scope.salt);
  }

  /** Lists a held block, which contains block `index` of the tokens, for sharing. Returns the parent node for the next block; null if the chain was forgotten. */
  list(parent: PrefixNode, tokens: Int32Array, index: number, block: number): PrefixNode | null {
    const node = this.#tree.list(parent, tokens, index, block);
    if (node?.block === block) this.#nodes[block] = node;
    return node;
  }

  /** Stops sharing the block and all blocks that continue it. */
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
