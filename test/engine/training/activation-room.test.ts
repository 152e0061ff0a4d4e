import { describe, expect, it } from 'vitest';
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { MemoryLimitError } from '../../../src/engine/engine-errors.ts';
import { ActivationRoom } from '../../../src/engine/training/activation-room.ts';

const MB = 2 ** 20;

/** A room with one tenant. */
function roomFor(limitBytes: number, memory = new SharedMemory()) {
  const room = new ActivationRoom(memory);
  const tenant = room.enter(limitBytes);
  return { take: (sizes: readonly number[]) => room.take(tenant, sizes), leave: () => room.leave(tenant) };
}

describe('ActivationRoom', () => {
  it('gives each thread a region of its own', () => {
    const room = roomFor(8 * MB);
    const [first, second, third] = room.take([MB, 100, 64]);
    expect(first!.pointer + first!.bytes).toBe(second!.pointer);
    expect(second!.pointer + second!.bytes).toBe(third!.pointer);
    expect([first!.bytes, second!.bytes, third!.bytes]).toEqual([MB, 128, 64]);
  });

  it('keeps the largest, so that batches of the same sizes take no more memory', () => {
    const memory = new SharedMemory();
    const room = roomFor(64 * MB, memory);
    room.take([3 * MB, 2 * MB]);
    const { used } = memory;
    for (let i = 0; i < 20; i++) room.take(i % 2 === 0 ? [2 * MB, 3 * MB] : [MB]);
    expect(memory.used).toBe(used);
  });

  it('grows in place: batches of rising sizes use the same addresses, though adapters are placed meanwhile', () => {
    const memory = new SharedMemory();
    const room = roomFor(64 * MB, memory);
    const pointers = Array.from({ length: 64 }, (_, i) => {
      memory.allocate(1000);
      return room.take([(i + 1) * MB])[0]!.pointer;
    });
    expect(new Set(pointers).size).toBe(1);
  });

  it('reserves 192 MiB at most, and a quarter of what is left in a full memory; beyond that it grows by a quarter', () => {
    const memory = new SharedMemory();
    const room = roomFor(2 ** 32, memory);
    room.take([MB]);
    expect(memory.used).toBe(192 * MB);
    room.take([193 * MB]);
    expect(memory.used).toBe(240 * MB);
    room.leave();
    const left = 100 * MB;
    memory.allocate(2 ** 32 - left);
    roomFor(2 ** 32, memory).take([MB]);
    expect(memory.used).toBe(2 ** 32 - left + left / 4);
  });

  it('takes what a batch needs where there is no room to grow by more', () => {
    const memory = new SharedMemory(new WebAssembly.Memory({ initial: 2, maximum: 256, shared: true }));
    memory.allocate(1.5 * MB);
    const room = roomFor(64 * MB, memory);
    room.take([12 * MB]);
    expect(room.take([13 * MB])).toMatchObject([{ bytes: 13 * MB }]);
    expect(() => room.take([15 * MB])).toThrow(MemoryLimitError);
    expect(room.take([13 * MB])).toHaveLength(1);
  });

  it('refuses what is beyond its limit or the memory, and keeps as much room as there was', () => {
    const memory = new SharedMemory();
    const room = roomFor(4 * MB, memory);
    const [before] = room.take([MB]);
    const { used } = memory;
    expect(() => room.take([2 * MB, 3 * MB])).toThrow(MemoryLimitError);
    expect(() => room.take([2 * MB, 3 * MB])).toThrow(/take 5\.2 MB, the limit is 4\.2 MB\. Pass fewer tokens/);
    expect(memory.used).toBe(used);
    expect(room.take([MB])).toEqual([before]);
    const large = roomFor(2 ** 33, memory);
    const [kept] = large.take([MB]);
    const usedByBoth = memory.used;
    expect(() => large.take([5e9])).toThrow(MemoryLimitError);
    expect(memory.used).toBe(usedByBoth);
    expect(large.take([MB])).toEqual([kept]);
  });

  it('hands everything back', () => {
    const memory = new SharedMemory();
    const { used } = memory;
    const room = roomFor(64 * MB, memory);
    room.take([MB, MB]);
    room.leave();
    room.leave();
    expect(memory.used).toBe(used);
  });

  it('gives its tenants the same memory in turn, each up to its own limit, and forgets what it held', () => {
    const memory = new SharedMemory();
    const room = new ActivationRoom(memory);
    const [small, large] = [room.enter(2 * MB), room.enter(64 * MB)];
    const [first] = room.take(small, [MB]);
    room.held = small;
    expect(() => room.take(small, [3 * MB])).toThrow(/the limit is 2\.1 MB/);
    expect(room.held).toBe(small);
    expect(room.take(large, [MB])[0]!.pointer).toBe(first!.pointer);
    expect(room.held).toBeNull();
    expect(memory.used).toBe(64 * MB);
    room.take(small, [2 * MB]);
    expect(memory.used).toBe(64 * MB);
  });

  it('takes the memory that its tenants would take alone: one that leaves gives back what only it needed, and moves nothing', () => {
    const memory = new SharedMemory();
    const room = new ActivationRoom(memory);
    const [small, large, idle] = [room.enter(2 * MB), room.enter(64 * MB), room.enter(512 * MB)];
    const [kept] = room.take(small, [MB]);
    const { used } = memory;
    room.take(large, [MB]);
    room.leave(idle);
    expect([memory.used, room.reachableBytes, room.promisedBytes, room.tenants]).toEqual([64 * MB, 2 ** 32, 64 * MB, 2]);
    room.leave(large);
    expect([memory.used, room.reachableBytes, room.promisedBytes, room.tenants]).toEqual([used, 2 ** 32, 2 * MB, 1]);
    expect(room.take(small, [MB])).toEqual([kept]);
    room.leave(small);
    expect([memory.used, room.promisedBytes, room.tenants]).toEqual([0, 0, 0]);
  });

  it('keeps the room of the others when a tenant finds no room to grow', () => {
    const memory = new SharedMemory(new WebAssembly.Memory({ initial: 2, maximum: 256, shared: true }));
    const room = new ActivationRoom(memory);
    const [small, large] = [room.enter(12 * MB), room.enter(64 * MB)];
    room.take(small, [12 * MB]);
    room.take(large, [MB]);
    expect(memory.used).toBe(12 * MB);
    expect(() => room.take(large, [17 * MB])).toThrow(MemoryLimitError);
    expect(room.take(small, [12 * MB])).toMatchObject([{ bytes: 12 * MB }]);
    room.leave(small);
    room.leave(large);
    expect(memory.used).toBe(0);
  });
});
