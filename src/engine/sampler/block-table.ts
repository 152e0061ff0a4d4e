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
  /** What `view` returned last: it changes once in 16 tokens. */
  #view = this.#blocks.subarray(0, 0);
  /** Blocks from the start that are offered to others, and the node of the last one. */
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

  /** What it fills is offered to others. */
  get isListing(): boolean {
    return this.#isListing;
  }

  /** Begins with the blocks that hold its prefix already. It must be empty. */
  adopt(nodes: readonly PrefixNode[]): void {
    for (const { block } of nodes) {
      this.#pool.hold(block);
      this.#append(block);
    }
    this.#listed = nodes.length;
    this.#node = nodes.at(-1) ?? null;
    this.#isListing = true;
  }

  /** Takes blocks until so many positions have room. False where there are not enough; what it took it keeps. */
  reserve(positions: number): boolean {
    for (const wanted = blocksFor(positions); this.#count < wanted;) {
      const block = this.#pool.take();
      if (block < 0) return false;
      this.#append(block);
    }
    return true;
  }

  /** The blocks of so many positions, until the next call. */
  view(positions: number): Int32Array {
    const count = blocksFor(positions);
    if (this.#view.length !== count || this.#view.buffer !== this.#blocks.buffer) this.#view = this.#blocks.subarray(0, count);
    return this.#view;
  }

  /** Offers the blocks that are full now that so many of the tokens are in the cache. */
  list(tokens: Int32Array, computed: number): void {
    while (this.#isListing && (this.#listed + 1) * BLOCK_TOKENS <= computed) {
      const parent: PrefixNode = this.#node ?? this.#pool.root(this.#scope);
      this.#node = this.#pool.list(parent, tokens, this.#listed, this.#blocks[this.#listed]!);
      this.#isListing = this.#node !== null;
      this.#listed++;
    }
  }

  /** Nobody shall read what these blocks hold, its own or shared. */
  forget(): void {
    for (let i = 0; i < this.#count; i++) this.#pool.forget(this.#blocks[i]!);
  }

  release(): void {
    // The tail first, so that it is given up before the head: a tail without its head is of no use.
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
