/**
 * What a thread's cache of prefixes probably holds, known without asking it: fingerprints of the blocks that went there, the latest ones. It only decides where a
 * request goes. A wrong guess (two prefixes of one fingerprint, a block the thread has given up) costs time and changes no result.
 */
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import type { PrefixScope } from '../sampler/block-pool.ts';

/** A fingerprint of each full block of 16 tokens together with all before it. [floor(n / 16)] */
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
    // 53 bits: what a double holds exactly.
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
  /** In the order of last use. */
  readonly #blocks = new Set<number>();

  /** @param capacity fingerprints that are kept; as many as the cache has blocks. */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  remember(chain: Float64Array): void {
    // The head of a chain last, so that it outlives its tail: a tail without its head is of no use.
    for (const block of chain.toReversed()) {
      this.#blocks.delete(block);
      this.#blocks.add(block);
    }
    for (const oldest of this.#blocks) {
      if (this.#blocks.size <= this.#capacity) break;
      this.#blocks.delete(oldest);
    }
  }

  /** How many blocks from the start on are known. */
  known(chain: Float64Array): number {
    const missing = chain.findIndex((block) => !this.#blocks.has(block));
    return missing < 0 ? chain.length : missing;
  }

  get size(): number {
    return this.#blocks.size;
  }
}
