/**
 * The engine's one memory, shared by its threads: the model lies in it once. The main thread hands out regions; a thread keeps its scratch, cache and
 * activations in regions of its own. Addresses are byte offsets, all multiples of 64.
 */
import type { EngineMemory } from '../kernels/web-assembly.ts';
import { MemoryLimitError } from '../engine-errors.ts';

export interface MemoryRegion {
  readonly pointer: number;
  readonly bytes: number;
}

/** WebAssembly addresses 4 GiB; the engine's limit with it. */
export const MAX_MEMORY_BYTES = 2 ** 32;
/** Less is of no use to any model. */
const LEAST_RESERVED_BYTES = 2 ** 26;
const PAGE = 65536;
/** Below it lie the constants of the kernels. */
const FIRST_FREE = 65536;
const ALIGNMENT = 64;
const REMEDY = 'shorten the longest sequence, or take a smaller model or adapter';

export const aligned = (bytes: number): number => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

/** Hands out regions, first fit; used by the main thread alone. What is given back is joined with free neighbours. */
export class SharedMemory {
  readonly memory: EngineMemory;
  #top = FIRST_FREE;
  #free: MemoryRegion[] = [];

  constructor(memory: EngineMemory = reserveMemory()) {
    this.memory = memory;
  }

  /** Zeroed or not: what was used before is left as it was. Throws MemoryLimitError. */
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
    // What lies at the end can be handed out again in any size.
    const last = this.#free.at(-1)!;
    if (last.pointer + last.bytes === this.#top) {
      this.#free.pop();
      this.#top = last.pointer;
    }
  }

  /** Bytes that are handed out. */
  get used(): number {
    return this.#top - FIRST_FREE - this.#free.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #grow(end: number): void {
    const have = this.memory.buffer.byteLength;
    if (end <= have) return;
    if (end > MAX_MEMORY_BYTES - PAGE) {
      throw new MemoryLimitError(`Expected all that the embedded engine holds to fit the 4 GiB it addresses, got ${sizeText(end)}; ${REMEDY}`);
    }
    try {
      this.memory.grow(Math.ceil((end - have) / PAGE));
    } catch (cause) {
      throw new MemoryLimitError(`Expected ${sizeText(end)} of memory for the embedded engine, this machine does not give them; ${REMEDY}`, {
        cause,
      });
    }
  }
}

const sizeText = (bytes: number): string => (bytes < 2 ** 30 ? `${Math.ceil(bytes / 2 ** 20)} MiB` : `${(bytes / 2 ** 30).toFixed(2)} GiB`);

/**
 * Addresses for all that WebAssembly can have; half of them, and again, where a process may not have so many (`ulimit -v`). A page is asked for, because a
 * memory whose addresses were refused is made all the same and then never grows. The last attempt counts.
 */
function reserveMemory(): EngineMemory {
  for (let bytes = MAX_MEMORY_BYTES; ; bytes /= 2) {
    try {
      const memory = new WebAssembly.Memory({ initial: 2, maximum: bytes / PAGE, shared: true });
      memory.grow(1);
      return memory;
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause;
      if (bytes > LEAST_RESERVED_BYTES) continue;
      throw new MemoryLimitError(
        `Expected ${sizeText(bytes)} of addresses for the embedded engine, this machine gives fewer; raise the limit on virtual memory (ulimit -v)`,
        { cause },
      );
    }
  }
}

/** A region that is filled from the start, within one thread. */
export class Arena {
  readonly #limit: number;
  #next: number;

  constructor(region: MemoryRegion) {
    this.#next = region.pointer;
    this.#limit = region.pointer + region.bytes;
  }

  /** The address of room for `count` 4-byte numbers. Throws MemoryLimitError. */
  take(count: number): number {
    const pointer = this.#next;
    this.#next += aligned(count * 4);
    if (this.#next > this.#limit) throw new MemoryLimitError(`expected room for ${count} numbers, got ${(this.#limit - pointer) / 4}`);
    return pointer;
  }

  /** The address behind all that was taken. */
  get end(): number {
    return this.#next;
  }
}
