import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isRatioAtLeast, matchingBlocks, sequenceMatcherRatio } from '../../src/metrics/sequence-matcher.ts';

/** The definition, without an index: the longest common block that starts first in a, then first in b, then the same left and right of it. */
function plainMatches(a: readonly string[], b: readonly string[]): number {
  let [i, j, size] = [0, 0, 0];
  for (let x = 0; x < a.length; x++) {
    for (let y = 0; y < b.length; y++) {
      let n = 0;
      while (x + n < a.length && y + n < b.length && a[x + n] === b[y + n]) n++;
      if (n > size) [i, j, size] = [x, y, n];
    }
  }
  return size === 0 ? 0 : size + plainMatches(a.slice(0, i), b.slice(0, j)) + plainMatches(a.slice(i + size), b.slice(j + size));
}

const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '图', '😀'), maxLength: 40, size: 'max' });
const pair = fc.tuple(text, text);

describe('sequenceMatcherRatio', () => {
  it('is what the definition gives for texts below 200 code points', () => {
    fc.assert(
      fc.property(pair, ([a, b]) => {
        const [left, right] = [Array.from(a), Array.from(b)];
        const length = left.length + right.length;
        expect(sequenceMatcherRatio(a, b)).toBe(length === 0 ? 1 : (2 * plainMatches(left, right)) / length);
      }),
    );
  });

  it('depends on the order of the two, as in CPython', () => {
    expect([sequenceMatcherRatio('tide', 'diet'), sequenceMatcherRatio('diet', 'tide')]).toEqual([0.25, 0.5]);
  });

  it('leaves out what is popular in a second text of 200 code points, but not in one of 199', () => {
    expect(sequenceMatcherRatio('a'.repeat(100), 'a'.repeat(199))).toBeCloseTo(0.668896, 6);
    expect(sequenceMatcherRatio('a'.repeat(100), 'a'.repeat(200))).toBeCloseTo(0.666667, 6);
    const t = 'The quick brown fox jumps over the lazy dog. '.repeat(8);
    expect(sequenceMatcherRatio(t.slice(0, 150), t)).toBeCloseTo(0.588235, 6);
    expect(sequenceMatcherRatio(t, t.slice(5))).toBe(0);
  });
});

describe('isRatioAtLeast', () => {
  it('decides as the ratio does {any texts, any threshold}', () => {
    fc.assert(
      fc.property(pair, fc.double({ min: 0, max: 1, noNaN: true }), ([a, b], threshold) => {
        const ratio = sequenceMatcherRatio(a, b);
        for (const t of [threshold, ratio, 0, 0.5, 1]) expect(isRatioAtLeast(a, b, t)).toBe(ratio >= t);
      }),
    );
  });

  it.each([
    ['a long string against a short one', 'x'.repeat(2_000_000), 'gold', false],
    ['other letters', 'x'.repeat(2_000_000), 'y'.repeat(2_000_000), false],
    ['popular letters in another order', 'ab'.repeat(1_000_000), 'ba'.repeat(1_000_000), false],
    ['the same text', 'ab'.repeat(1_000_000), 'ab'.repeat(1_000_000), true],
    ['lone surrogates', '\ud800'.repeat(2_000_000), '\udc00'.repeat(1_000_000), false],
  ])('answers for 2 MB: %s', (_name, a, b, expected) => {
    expect(isRatioAtLeast(a, b, 0.5)).toBe(expected);
  });
});

describe('matchingBlocks', () => {
  it('covers equal stretches in order and ends with an empty block', () => {
    fc.assert(
      fc.property(pair, ([a, b]) => {
        const [left, right] = [Array.from(a), Array.from(b)];
        const blocks = matchingBlocks(a, b);
        expect(blocks.at(-1)).toEqual({ aStart: left.length, bStart: right.length, size: 0 });
        for (const [k, { aStart, bStart, size }] of blocks.slice(0, -1).entries()) {
          expect(left.slice(aStart, aStart + size)).toEqual(right.slice(bStart, bStart + size));
          const next = blocks[k + 1]!;
          expect(next.aStart >= aStart + size && next.bStart >= bStart + size).toBe(true);
        }
      }),
    );
  });
});
