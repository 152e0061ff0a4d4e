/** Memory for the activations of all threads: it grows to the largest batch so far, up to a limit. */
import { MemoryLimitError } from '../engine-errors.ts';
import { type MemoryRegion, type SharedMemory, aligned } from '../compute/memory.ts';

/** Smallest growth factor, so that batches of slowly rising size do not fragment the memory. */
const GROWTH = 1.25;

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
    const grown = Math.min(this.limitBytes, Math.max(bytes, Math.ceil((before?.bytes ?? 0) * GROWTH)));
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
