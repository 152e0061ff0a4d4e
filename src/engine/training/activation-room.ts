/** Room for the activations of all threads: as much as the largest batch so far took, and never more than was allowed. */
import { MemoryLimitError } from '../engine-errors.ts';
import { type MemoryRegion, type SharedMemory, aligned } from '../compute/memory.ts';

/** Grown by at least this factor, so that batches of slowly rising size do not leave a trail of gaps. */
const GROWTH = 1.25;

export class ActivationRoom {
  readonly limitBytes: number;
  readonly #memory: SharedMemory;
  #region: MemoryRegion | null = null;

  constructor(memory: SharedMemory, limitBytes: number) {
    this.#memory = memory;
    this.limitBytes = limitBytes;
  }

  /** One region for each size, in bytes; they replace those handed out before. Throws MemoryLimitError; no more room is taken then, but it may lie elsewhere. */
  take(sizes: readonly number[]): MemoryRegion[] {
    const wanted = sizes.reduce((sum, bytes) => sum + aligned(bytes), 0);
    if (wanted > this.limitBytes) {
      throw new MemoryLimitError(
        `Expected a batch whose activations fit ${megabytes(this.limitBytes)} MB, it takes ${megabytes(wanted)}; pass fewer tokens at once`,
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
    // First what is there, so that the new region may begin where the old one did.
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
