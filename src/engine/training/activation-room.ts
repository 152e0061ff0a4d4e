/**
 * Memory for the activations of all threads, and the queue in which an engine's trainers take turns with it: one batch has it at a time. It grows to the largest batch so
 * far, up to a limit of each trainer. The first batch reserves addresses for larger ones, because adapters are placed behind the region: growing past them would leave a
 * hole as large as the region. Reserved memory that no batch has touched takes none of the machine's.
 */
import { CallQueue } from '../../core/call-queue.ts';
import { MemoryLimitError } from '../engine-errors.ts';
import { MAX_MEMORY_BYTES, type MemoryRegion, type SharedMemory, aligned } from '../compute/memory.ts';

/** Smallest growth factor, so that batches of slowly rising size do not fragment the memory. */
const GROWTH = 1.25;
/** Reserved for later batches, or this share of the addresses that are left, if that is less: the rest is for adapters. */
const RESERVED_BYTES = 192 * 2 ** 20;
const RESERVED_SHARE = 0.25;

/** A trainer's part in the room. */
export interface RoomTenant {
  /** The most that one of its batches may take. */
  readonly limitBytes: number;
  /** Size that its batches so far have given the room; never falls. */
  bytes: number;
}

export class ActivationRoom {
  /** For every call of a trainer, so that none computes over another's activations or moves them. */
  readonly queue = new CallQueue();
  /** The batch whose activations lie in the room, as its trainer has set it; null once others may have overwritten them. */
  held: object | null = null;
  readonly #memory: SharedMemory;
  readonly #tenants = new Set<RoomTenant>();
  #region: MemoryRegion | null = null;

  constructor(memory: SharedMemory) {
    this.#memory = memory;
  }

  enter(limitBytes: number): RoomTenant {
    const tenant = { limitBytes, bytes: 0 };
    this.#tenants.add(tenant);
    return tenant;
  }

  /** Gives back what only this tenant needed. The rest stays where it is. */
  leave(tenant: RoomTenant): void {
    this.#tenants.delete(tenant);
    if (this.#region === null) return;
    const { pointer, bytes } = this.#region;
    const kept = this.#largest('bytes');
    if (kept < bytes) this.#memory.free({ pointer: pointer + kept, bytes: bytes - kept });
    this.#region = kept === 0 ? null : { pointer, bytes: kept };
  }

  get tenants(): number {
    return this.#tenants.size;
  }

  /** The largest batch that any tenant may bring. */
  get promisedBytes(): number {
    return this.#largest('limitBytes');
  }

  /** What the room has, and could have if it took all free addresses. */
  get reachableBytes(): number {
    return MAX_MEMORY_BYTES - this.#memory.used + (this.#region?.bytes ?? 0);
  }

  /** Returns one region per size, in bytes; they replace all earlier ones. Throws MemoryLimitError, and then keeps its old size, perhaps at another address. */
  take(tenant: RoomTenant, sizes: readonly number[]): MemoryRegion[] {
    const wanted = sizes.reduce((sum, bytes) => sum + aligned(bytes), 0);
    if (wanted > tenant.limitBytes) {
      throw new MemoryLimitError(
        `The activations of this batch take ${megabytes(wanted)} MB, the limit is ${megabytes(tenant.limitBytes)} MB. Pass fewer tokens at once.`,
      );
    }
    // Before anything moves, even if there is no room for this batch.
    this.held = null;
    if (wanted > tenant.bytes) this.#grow(tenant, wanted);
    let { pointer } = this.#region!;
    return sizes.map((bytes) => {
      const region = { pointer, bytes: aligned(bytes) };
      pointer += region.bytes;
      return region;
    });
  }

  #grow(tenant: RoomTenant, wanted: number): void {
    const spare = tenant.bytes === 0 ? this.#reserve() : tenant.bytes * GROWTH;
    const grown = aligned(Math.min(tenant.limitBytes, Math.max(wanted, spare)));
    this.#region = this.#atLeast(wanted, grown);
    tenant.bytes = Math.min(grown, this.#region.bytes);
  }

  /** A region that is no smaller than the one before it, and of `preferred` bytes if there is room. */
  #atLeast(wanted: number, preferred: number): MemoryRegion {
    const before = this.#region;
    if (before !== null && before.bytes >= preferred) return before;
    const least = Math.max(wanted, before?.bytes ?? 0);
    // Free the old region first, so that the new one can start at the same address.
    if (before !== null) this.#memory.free(before);
    try {
      return this.#allocateIfThere(preferred) ?? this.#memory.allocate(least);
    } catch (error) {
      if (before !== null) this.#region = this.#memory.allocate(before.bytes);
      throw error;
    }
  }

  #reserve(): number {
    return Math.min(RESERVED_BYTES, Math.floor(this.reachableBytes * RESERVED_SHARE));
  }

  #largest(part: keyof RoomTenant): number {
    return Math.max(0, ...[...this.#tenants].map((tenant) => tenant[part]));
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
