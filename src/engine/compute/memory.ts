/**
 * The engine's one memory, shared by its threads, which holds the model once. The main thread allocates regions; each thread has its own for scratch, cache and
 * activations. Addresses are byte offsets, all multiples of 64.
 */
import { type EngineMemory, webAssembly } from '../kernels/web-assembly.ts';
import { MemoryLimitError } from '../engine-errors.ts';

export interface MemoryRegion {
  readonly pointer: number;
  readonly bytes: number;
}

/** WebAssembly addresses at most 4 GiB. */
export const MAX_MEMORY_BYTES = 2 ** 32;
/** No model fits in less. */
const LEAST_RESERVED_BYTES = 2 ** 26;
const PAGE = 65536;
/** The kernels' constants lie below it. */
const FIRST_FREE = 65536;
const ALIGNMENT = 64;
const REMEDY = 'Shorten the longest sequence, or use a smaller model or adapter.';

export const aligned = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** First-fit allocator, used by the main thread only. Freed regions are merged with free neighbours. */
export class SharedMemory {
  readonly memory: EngineMemory;
  #top = FIRST_FREE;
  #free: MemoryRegion[] = [];

  constructor(memory: EngineMemory = reserveMemory()) {
    this.memory = memory;
  }

  /** Reused memory is not zeroed. Throws MemoryLimitError. */
  allocate(wanted: number): MemoryRegion {
    const bytes = aligned(wanted);
    const i = this.#free.findIndex((region) => region.bytes >= bytes);
    const region = this.#free[i];
    if (region !== undefined) {
      const rest = { pointer: region.pointer + bytes, bytes: region.bytes - bytes };
      this.#free.splice(i, 1, ...(rest.bytes > 0 ? [rest] : []));
      return { pointer: region.pointer, bytes };
    }
    this.#grow(this.#top + bytes);
    const pointer = this.#top;
    this.#top += bytes;
    return { pointer, bytes };
  }

  free(region: MemoryRegion): void {
    const regions = [...this.#free, region].toSorted((a, b) => a.pointer - b.pointer);
    this.#free = [];
    for (const each of regions) {
      const before = this.#free.at(-1);
      if (before !== undefined && before.pointer + before.bytes === each.pointer) {
        this.#free[this.#free.length - 1] = { pointer: before.pointer, bytes: before.bytes + each.bytes };
      } else this.#free.push(each);
    }
    // Free space at the end can be reused in any size.
    const last = this.#free.at(-1)!;
    if (last.pointer + last.bytes === this.#top) {
      this.#free.pop();
      this.#top = last.pointer;
    }
  }

  /** Allocated bytes. */
  get used(): number {
    return this.#top - FIRST_FREE - this.#free.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #grow(end: number): void {
    const have = this.memory.buffer.byteLength;
    if (end <= have) return;
    if (end > MAX_MEMORY_BYTES - PAGE) {
      throw new MemoryLimitError(`The embedded engine needs ${sizeText(end)} of memory, but can address only 4 GiB. ${REMEDY}`);
    }
    try {
      this.memory.grow(Math.ceil((end - have) / PAGE));
    } catch (cause) {
      throw new MemoryLimitError(`This machine could not provide ${sizeText(end)} of memory for the embedded engine. ${REMEDY}`, {
        cause,
      });
    }
  }
}

const sizeText = (bytes: number): string => (bytes < 2 ** 30 ? `${Math.ceil(bytes / 2 ** 20)} MiB` : `${(bytes / 2 ** 30).toFixed(2)} GiB`);

/**
 * Reserves addresses for all memory that WebAssembly can have, halving the amount while the process's limit (`ulimit -v`) forbids it. Growing by a page is the test:
 * a memory whose addresses were refused is created all the same, but can never grow.
 */
function reserveMemory(): EngineMemory {
  for (let bytes = MAX_MEMORY_BYTES; ; bytes /= 2) {
    try {
      const memory = new webAssembly.Memory({ initial: 2, maximum: bytes / PAGE, shared: true });
      memory.grow(1);
      return memory;
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause;
      if (bytes > LEAST_RESERVED_BYTES) continue;
      throw new MemoryLimitError(
        `This machine could not reserve ${sizeText(bytes)} of addresses for the embedded engine. Raise the limit on virtual memory (ulimit -v).`,
        { cause },
      );
    }
  }
}

/** Allocates from the start of a region, within one thread; nothing is freed. */
export class Arena {
  readonly #limit: number;
  #next: number;

  constructor(region: MemoryRegion) {
    this.#next = region.pointer;
    this.#limit = region.pointer + region.bytes;
  }

  /** Allocates `count` 4-byte numbers and returns their address. Throws MemoryLimitError. */
  take(count: number): number {
    const pointer = this.#next;
    this.#next += aligned(count * 4);
    if (this.#next > this.#limit) throw new MemoryLimitError(`expected room for ${count} numbers, got ${(this.#limit - pointer) / 4}`);
    return pointer;
  }

  /** The address after everything allocated. */
  get end(): number {
    return this.#next;
  }
}
