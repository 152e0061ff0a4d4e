import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { packSequences, type PackedSequences } from '../../../src/engine/compute/pack-sequences.ts';
import type { SequenceBatch } from '../../../src/engine/compute/training-types.ts';

const BLOCK = 16;

function batchOf(sequences: readonly (readonly number[])[], isTarget: (place: number) => boolean = () => true): SequenceBatch {
  const offsets = [0];
  for (const { length } of sequences) offsets.push(offsets.at(-1)! + length);
  const ids = Int32Array.from(sequences.flat());
  const targets = Int32Array.from(ids.keys()).filter((place) => !offsets.includes(place) && isTarget(place));
  return { ids, offsets: Int32Array.from(offsets), targets, temperature: 1 };
}

/** The tokens that a row sees, itself last, read through the blocks as attention reads the cache. */
function seenFrom(packed: PackedSequences, ids: Int32Array, row: number): number[] {
  const cache = new Map<number, number>();
  for (const { past, count, start, blocks } of packed.segments) {
    for (let i = 0; i < count; i++) cache.set(blocks[Math.floor((past + i) / BLOCK)]! * BLOCK + ((past + i) % BLOCK), ids[start + i]!);
  }
  const own = packed.segments.find((segment) => segment.row <= row && row < segment.row + segment.count)!;
  const position = own.past + row - own.row;
  return Array.from({ length: position + 1 }, (_, i) => cache.get(own.blocks[Math.floor(i / BLOCK)]! * BLOCK + (i % BLOCK))!);
}

describe('packSequences', () => {
  it('predicts every target from exactly the tokens before it', () => {
    const piece = (most: number) => fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: most });
    const family = fc.tuple(fc.oneof(piece(40), fc.constant(Array<number>(36).fill(1))), fc.array(piece(30), { minLength: 1, maxLength: 4 }));
    const families = fc.array(family, { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(families, fc.integer({ min: 1, max: 5 }), (chosen, every) => {
        const sequences = chosen.flatMap(([head, tails]) => tails.map((tail) => [...head, ...tail]));
        const batch = batchOf(sequences, (place) => place % every === 0);
        const packed = packSequences(batch);
        for (const [i, target] of batch.targets.entries()) {
          const start = batch.offsets.findLast((offset) => offset <= target)!;
          expect(seenFrom(packed, batch.ids, packed.wanted[i]!)).toEqual([...batch.ids.subarray(start, target)]);
        }
        expect(packed.segments.reduce((sum, { count }) => sum + count, 0)).toBe(packed.rows);
        expect(new Set(packed.segments.flatMap(({ blocks }) => [...blocks])).size).toBe(packed.blocks);
      }),
      { numRuns: 300 },
    );
  });

  it('computes shared leading blocks once, as a tree', () => {
    const head = Array.from({ length: 35 }, (_, i) => i);
    const deeper = [...head, ...Array.from({ length: 20 }, () => 7)];
    const sequences = [
      [...head, 50, 50, 50],
      [...deeper, 1, 2],
      [...deeper, 3],
      [9, 9, 9],
    ];
    const packed = packSequences(batchOf(sequences));
    // A last token predicts nothing. The second shares 32 tokens with the first, the third 48 with the second.
    expect(packed.segments.map(({ past, count }) => [past, count])).toEqual([
      [0, 37],
      [32, 24],
      [48, 7],
      [0, 2],
    ]);
    expect(packed.segments.map(({ blocks }) => [...blocks])).toEqual([[0, 1, 2], [0, 1, 3, 4], [0, 1, 3, 5], [6]]);
  });

  it('leaves out what no target needs: sequences without one, and what follows the last', () => {
    const packed = packSequences(batchOf([[1, 2, 3], Array<number>(40).fill(1), [4, 5]], (place) => place === 20));
    expect(packed.segments.map(({ row, count, past, start }) => ({ row, count, past, start }))).toEqual([{ row: 0, count: 17, past: 0, start: 3 }]);
    expect([...packed.wanted]).toEqual([16]);
    expect(packSequences(batchOf([])).rows).toBe(0);
  });

  it('computes the same sequence once, and gives its places as often as they are asked for', () => {
    const same = Array.from({ length: 33 }, (_, i) => i % 5);
    const packed = packSequences(batchOf([same, same], (place) => place % 33 > 30));
    expect(packed.rows).toBe(32);
    expect([...packed.wanted]).toEqual([30, 31, 30, 31]);
  });

  it.each([
    ['targets that go down', [0, 5], [3, 2]],
    ['targets that come twice', [0, 5], [3, 3]],
    ['the first token of a sequence as a target', [0, 2, 5], [2]],
    ['a target beyond the end', [0, 5], [5]],
    ['offsets that go down', [0, 4, 3], [1]],
    ['offsets beyond the tokens', [0, 6], [1]],
  ])('refuses %s', (_, offsets, targets) => {
    const batch = { ids: new Int32Array(5), offsets: Int32Array.from(offsets), targets: Int32Array.from(targets), temperature: 1 };
    expect(() => packSequences(batch)).toThrow(RangeError);
  });
});
