/**
 * The tokens that requests allow, as the threads read them. Requests that bring the same list share one copy of it in shared memory: with a large vocabulary and many
 * choices, a copy for each would take gigabytes.
 */
import { sharedBuffer } from '../../core/shared-buffer.ts';

export class AllowedTokens {
  /** By the list itself, which the choices of one request have in common. */
  readonly #shared = new WeakMap<readonly number[], Int32Array>();

  /** Tells whether `of` has seen this very list. */
  has(ids: readonly number[] | null): boolean {
    return ids !== null && this.#shared.has(ids);
  }

  /** Ascending, each once; null for null. */
  of(ids: readonly number[] | null): Int32Array | null {
    if (ids === null) return null;
    let shared = this.#shared.get(ids);
    if (shared === undefined) {
      const distinct = Int32Array.from(new Set(ids)).toSorted();
      shared = new Int32Array(sharedBuffer(distinct.byteLength));
      shared.set(distinct);
      this.#shared.set(ids, shared);
    }
    return shared;
  }
}
