/**
 * Memory for the activations of all threads: it grows to the largest batch so far, up to a limit. The first batch reserves addresses for larger ones, because adapters are
 * placed behind the region: growing past them would leave a hole as large as the region. Reserved memory that no batch has touched takes none of the machine's.
 */
import { MemoryLimitError } from '../engine-errors.ts';
import { MAX_MEMORY_BYTES, type MemoryRegion, type SharedMemory, aligned } from '../compute/memory.ts';

/** Smallest growth factor, so that batches of slowly rising size do not fragment the memory. */
const GROWTH = 1.25;
/** Reserved for later batches, or this share of the addresses that are left, if that is less: the rest is for adapters. */
const RESERVED_BYTES = 192 * 2 ** 20;
const RESERVED_SHARE = 0.25;

export class ActivationRoom {
  readonly limitBytes: number;
  readonly #memory: SharedMemory;
  #region: MemoryRegion | null = null;

  constructor(memory: SharedMemory, limitBytes: number) {
    this.#memory = memory;
    this.limitBytes = limitBytes;
  }

  /** Returns one region per size, in bytes; they replace all earlier ones. Throws MemoryLimitError, and then keeps its old size, perhaps at another address. */
  take(sizes: readonly number[]): MemoryRegion[] {
    const wanted = sizes.reduce((sum, bytes) => sum + aligned(bytes), 0);
    if (wanted > this.limitBytes) {
      throw new MemoryLimitError(
        `The activations of this batch take ${megabytes(wanted)} MB, the limit is ${megabytes(this.limitBytes)} MB. Pass fewer tokens at once.`,
      );
    }
    let { pointer } = this.#atLeast(wanted);
    return sizes.map((bytes) => {
      const region = { pointer, bytes: aligned(bytes) };
      pointer += region.bytes;
      return region;
    });
  }

  free(): void {
    if (this.#region !== null) this.#memory.free(this.#region);
    this.#region = null;
  }

  #atLeast(bytes: number): MemoryRegion {
    const before = this.#region;
    if (before !== null && before.bytes >= bytes) return before;
    const spare = before === null ? this.#reserve() : Math.ceil(before.bytes * GROWTH);
    const grown = Math.min(this.limitBytes, Math.max(bytes, spare));
    // Free the old region first, so that the new one can start at the same address.
    this.free();
    try {
      this.#region = this.#allocateIfThere(grown) ?? this.#memory.allocate(bytes);
    } catch (error) {
      if (before !== null) this.#region = this.#memory.allocate(before.bytes);
      throw error;
    }
    return this.#region;
  }

  #reserve(): number {
    return Math.min(RESERVED_BYTES, Math.floor((MAX_MEMORY_BYTES - this.#memory.used) * RESERVED_SHARE));
  }

  #allocateIfThere(bytes: number): MemoryRegion | null {
    try {
      return this.#memory.allocate(bytes);
    } catch (error) {
      if (error instanceof MemoryLimitError) return null;
      throw error;
    }
  }
}

const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0);
