import { describe, expect, it } from 'vitest';
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { MemoryLimitError } from '../../../src/engine/engine-errors.ts';
import { ActivationRoom } from '../../../src/engine/training/activation-room.ts';

const MB = 2 ** 20;

describe('ActivationRoom', () => {
  it('gives each thread a region of its own', () => {
    const room = new ActivationRoom(new SharedMemory(), 8 * MB);
    const [first, second, third] = room.take([MB, 100, 64]);
    expect(first!.pointer + first!.bytes).toBe(second!.pointer);
    expect(second!.pointer + second!.bytes).toBe(third!.pointer);
    expect([first!.bytes, second!.bytes, third!.bytes]).toEqual([MB, 128, 64]);
  });

  it('keeps the largest, so that batches of the same sizes take no more memory', () => {
    const memory = new SharedMemory();
    const room = new ActivationRoom(memory, 64 * MB);
    room.take([3 * MB, 2 * MB]);
    const { used } = memory;
    for (let i = 0; i < 20; i++) room.take(i % 2 === 0 ? [2 * MB, 3 * MB] : [MB]);
    expect(memory.used).toBe(used);
  });

  it('grows in place: batches of rising sizes use the same addresses, though adapters are placed meanwhile', () => {
    const memory = new SharedMemory();
    const room = new ActivationRoom(memory, 64 * MB);
    const pointers = Array.from({ length: 64 }, (_, i) => {
      memory.allocate(1000);
      return room.take([(i + 1) * MB])[0]!.pointer;
    });
    expect(new Set(pointers).size).toBe(1);
  });

  it('reserves 192 MiB at most, and a quarter of what is left in a full memory; beyond that it grows by a quarter', () => {
    const memory = new SharedMemory();
    const room = new ActivationRoom(memory, 2 ** 32);
    room.take([MB]);
    expect(memory.used).toBe(192 * MB);
    room.take([193 * MB]);
    expect(memory.used).toBe(240 * MB);
    room.free();
    const left = 100 * MB;
    memory.allocate(2 ** 32 - left);
    room.take([MB]);
    expect(memory.used).toBe(2 ** 32 - left + left / 4);
  });

  it('takes what a batch needs where there is no room to grow by more', () => {
    const memory = new SharedMemory(new WebAssembly.Memory({ initial: 2, maximum: 256, shared: true }));
    memory.allocate(1.5 * MB);
    const room = new ActivationRoom(memory, 64 * MB);
    room.take([12 * MB]);
    expect(room.take([13 * MB])).toMatchObject([{ bytes: 13 * MB }]);
    expect(() => room.take([15 * MB])).toThrow(MemoryLimitError);
    expect(room.take([13 * MB])).toHaveLength(1);
  });

  it('refuses what is beyond its limit or the memory, and keeps as much room as there was', () => {
    const memory = new SharedMemory();
    const room = new ActivationRoom(memory, 4 * MB);
    const [before] = room.take([MB]);
    const { used } = memory;
    expect(() => room.take([2 * MB, 3 * MB])).toThrow(MemoryLimitError);
    expect(() => room.take([2 * MB, 3 * MB])).toThrow(/take 5\.2 MB, the limit is 4\.2 MB\. Pass fewer tokens/);
    expect(memory.used).toBe(used);
    expect(room.take([MB])).toEqual([before]);
    const large = new ActivationRoom(memory, 2 ** 33);
    const [kept] = large.take([MB]);
    const usedByBoth = memory.used;
    expect(() => large.take([5e9])).toThrow(MemoryLimitError);
    expect(memory.used).toBe(usedByBoth);
    expect(large.take([MB])).toEqual([kept]);
  });

  it('hands everything back', () => {
    const memory = new SharedMemory();
    const { used } = memory;
    const room = new ActivationRoom(memory, 64 * MB);
    room.take([MB, MB]);
    room.free();
    room.free();
    expect(memory.used).toBe(used);
  });
});
