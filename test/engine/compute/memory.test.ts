import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Arena, MAX_MEMORY_BYTES, type MemoryRegion, SharedMemory } from '../../../src/engine/compute/memory.ts';
import { MemoryLimitError } from '../../../src/engine/engine-errors.ts';

const small = () => new SharedMemory(new WebAssembly.Memory({ initial: 2, maximum: 16, shared: true }));

describe('SharedMemory', () => {
  it('hands out regions that lie apart, aligned and within the memory, and has all of it again once they are given back', () => {
    // A size takes a region, a place gives back one of those taken.
    const anyMove = fc.oneof(fc.record({ take: fc.integer({ min: 1, max: 300_000 }) }), fc.record({ free: fc.nat() }));
    fc.assert(
      fc.property(fc.array(anyMove, { maxLength: 60 }), (moves) => {
        const memory = small();
        const before = memory.used;
        const held: MemoryRegion[] = [];
        for (const move of moves) {
          if ('free' in move) {
            const [region] = held.splice(move.free % Math.max(held.length, 1), 1);
            if (region !== undefined) memory.free(region);
            continue;
          }
          try {
            held.push(memory.allocate(move.take));
          } catch (error) {
            if (!(error instanceof MemoryLimitError)) throw error;
          }
        }
        const inOrder = held.toSorted((a, b) => a.pointer - b.pointer);
        for (const [i, { pointer, bytes }] of inOrder.entries()) {
          expect(pointer % 64).toBe(0);
          expect(pointer + bytes).toBeLessThanOrEqual(inOrder[i + 1]?.pointer ?? memory.memory.buffer.byteLength);
        }
        expect(memory.used - before).toBe(held.reduce((sum, { bytes }) => sum + bytes, 0));
        for (const region of held) memory.free(region);
        expect(memory.used).toBe(before);
        expect(memory.allocate(900_000).pointer).toBe(65_536);
      }),
    );
  });

  it('says in one line what did not fit, and keeps working', () => {
    const memory = small();
    expect(() => memory.allocate(2 ** 20)).toThrow(/^This machine could not provide \d MiB of memory for the embedded engine\. Shorten/);
    expect(() => memory.allocate(MAX_MEMORY_BYTES)).toThrow(/^The embedded engine needs 4\.00 GiB of memory, but can address only 4 GiB\. Shorten/);
    expect(memory.allocate(1000).bytes).toBe(1024);
  });
});

/** A process of its own, for limits last as long as a process. */
function grownUnder(kilobytes: number): string {
  const script = `
    import { SharedMemory } from '${new URL('../../../src/engine/compute/memory.ts', import.meta.url).href}';
    try { console.log(new SharedMemory().allocate(100 * 2 ** 20).bytes); } catch (error) { console.log(error.message); }`;
  const args = [
    '-c',
    `ulimit -v ${kilobytes} && exec "$0" --no-warnings --max-old-space-size=64 --input-type=module -e "$1"`,
    process.execPath,
    script,
  ];
  return spawnSync('bash', args, { encoding: 'utf8' }).stdout.trim();
}

// Skipped elsewhere, where a shell cannot limit the addresses of a process: macOS ignores `ulimit -v`, Windows has none.
describe.skipIf(process.platform !== 'linux')('SharedMemory where a process may not have 4 GiB of addresses', () => {
  it('reserves fewer', () => {
    expect(grownUnder(2_000_000)).toBe(String(100 * 2 ** 20));
  });
});

describe('Arena', () => {
  it('fills a region from the start, up to its end', () => {
    const arena = new Arena({ pointer: 640, bytes: 256 });
    expect(arena.take(1)).toBe(640);
    expect(arena.take(17)).toBe(704);
    expect(arena.end).toBe(832);
    expect(() => arena.take(17)).toThrow(MemoryLimitError);
  });
});
