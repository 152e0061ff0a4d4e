/**
 * The main thread's guess at what a thread's prefix cache holds: fingerprints of the blocks most recently sent there. It only decides which thread gets a request.
 * A wrong guess (two prefixes with one fingerprint, a block that was evicted) costs time but changes no result.
 */
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import type { PrefixScope } from '../sampler/block-pool.ts';

/** A fingerprint of each full block of 16 tokens and everything before it. [floor(n / 16)] */
export function prefixChain(scope: PrefixScope, tokens: Int32Array): Float64Array {
  let low = mixed(0x811c9dc5, scope.adapter);
  let high = mixed(0x2545f491, scope.adapter);
  for (const char of scope.salt ?? '') {
    low = mixed(low, char.codePointAt(0)!);
    high = mixed(high, char.codePointAt(0)! + 1);
  }
  const chain = new Float64Array(Math.floor(tokens.length / BLOCK_TOKENS));
  for (let i = 0; i < chain.length * BLOCK_TOKENS; i++) {
    low = mixed(low, tokens[i]!);
    high = mixed(high, tokens[i]! + 1);
    // 53 bits, which a double holds exactly.
    if ((i + 1) % BLOCK_TOKENS === 0) chain[(i + 1) / BLOCK_TOKENS - 1] = (low >>> 0) * 2 ** 21 + (high >>> 11);
  }
  return chain;
}

function mixed(hash: number, value: number): number {
  const h = Math.imul(hash ^ value, 0x5bd1e995);
  return Math.imul(h ^ (h >>> 15), 0x9e3779b1);
}

export class PrefixMemory {
  readonly #capacity: number;
  /** Least recently used first. */
  readonly #blocks = new Set<number>();

  /** @param capacity number of fingerprints to keep: the number of blocks in the cache. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  remember(chain: Float64Array): void {
    // The head of a chain goes in last so that it is evicted last: a tail without its head is useless.
    for (const block of chain.toReversed()) {
      this.#blocks.delete(block);
      this.#blocks.add(block);
    }
    for (const oldest of this.#blocks) {
      if (this.#blocks.size <= this.#capacity) break;
      this.#blocks.delete(oldest);
    }
  }

  /** Number of known blocks at the start of the chain. */
  known(chain: Float64Array): number {
    const missing = chain.findIndex((block) => !this.#blocks.has(block));
    return missing < 0 ? chain.length : missing;
  }

  get size(): number {
    return this.#blocks.size;
  }
}
