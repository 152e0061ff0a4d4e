/** The blocks of one request, in the order of its positions. */
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import type { BlockPool, PrefixScope } from './block-pool.ts';
import type { PrefixNode } from './prefix-tree.ts';

export const blocksFor = (positions: number): number => Math.ceil(positions / BLOCK_TOKENS);

export class BlockTable {
  readonly #pool: BlockPool;
  readonly #scope: PrefixScope;
  #blocks = new Int32Array(8);
  #count = 0;
  /** The last result of `view`; it changes once every 16 tokens. */
  #view = this.#blocks.subarray(0, 0);
  /** Number of blocks, from the start, that are listed for sharing, and the node of the last one. */
  #listed = 0;
  #node: PrefixNode | null = null;
  #isListing = true;

  constructor(pool: BlockPool, scope: PrefixScope) {
    this.#pool = pool;
    this.#scope = scope;
  }

  get count(): number {
    return this.#count;
  }

  /** True if full blocks are listed for sharing. */
  get isListing(): boolean {
    return this.#isListing;
  }

  /** Starts an empty table with blocks that already hold its prefix. */
  adopt(nodes: readonly PrefixNode[]): void {
    for (const { block } of nodes) {
      this.#pool.hold(block);
      this.#append(block);
    }
    this.#listed = nodes.length;
    this.#node = nodes.at(-1) ?? null;
    this.#isListing = true;
  }

  /** Takes blocks for this many positions. False if there are not enough; the table keeps those it took. */
  reserve(positions: number): boolean {
    for (const wanted = blocksFor(positions); this.#count < wanted;) {
      const block = this.#pool.take();
      if (block < 0) return false;
      this.#append(block);
    }
    return true;
  }

  /** The blocks of this many positions; valid until the next call. */
  view(positions: number): Int32Array {
    const count = blocksFor(positions);
    if (this.#view.length !== count || this.#view.buffer !== this.#blocks.buffer) this.#view = this.#blocks.subarray(0, count);
    return this.#view;
  }

  /** Lists the blocks that became full, now that `computed` tokens are in the cache. */
  list(tokens: Int32Array, computed: number): void {
    while (this.#isListing && (this.#listed + 1) * BLOCK_TOKENS <= computed) {
      const parent: PrefixNode = this.#node ?? this.#pool.root(this.#scope);
      this.#node = this.#pool.list(parent, tokens, this.#listed, this.#blocks[this.#listed]!);
      this.#isListing = this.#node !== null;
      this.#listed++;
    }
  }

  /** Stops sharing all its blocks, because their contents are invalid. */
  forget(): void {
    for (let i = 0; i < this.#count; i++) this.#pool.forget(this.#blocks[i]!);
  }

  release(): void {
    // The tail first, so that it is evicted before the head: a tail without its head is useless.
    for (let i = this.#count - 1; i >= 0; i--) this.#pool.release(this.#blocks[i]!);
    this.#count = 0;
  }

  #append(block: number): void {
    if (this.#count === this.#blocks.length) {
      const grown = new Int32Array(2 * this.#count);
      grown.set(this.#blocks);
      this.#blocks = grown;
    }
    this.#blocks[this.#count++] = block;
  }
}
