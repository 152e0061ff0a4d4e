import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { imageTokens, MAX_ASPECT, smartResize } from '../../src/core/image-size.ts';

const units = fc.constantFrom(28, 32);
const sides = fc.integer({ min: 1, max: 5000 });

describe('smartResize', () => {
  // The vectors of Qwen's own processor are in test/golden/visual-rag (npm run parity).
  it('gives sides that are multiples of the unit, at least one each', () => {
    fc.assert(
      fc.property(units, sides, sides, (unit, width, height) => {
        const size = smartResize({ width, height }, { unit, minPixels: 4 * unit * unit, maxPixels: 1024 * unit * unit });
        expect(size === null).toBe(Math.max(width, height) > MAX_ASPECT * Math.min(width, height));
        for (const side of size === null ? [] : [size.width, size.height]) expect([side >= unit, side % unit]).toEqual([true, 0]);
      }),
    );
  });

  it('keeps sizes that are multiples of the unit and within the range', () => {
    fc.assert(
      fc.property(units, fc.integer({ min: 2, max: 32 }), fc.integer({ min: 2, max: 32 }), (unit, columns, rows) => {
        const size = { width: columns * unit, height: rows * unit };
        expect(smartResize(size, { unit, minPixels: 4 * unit * unit, maxPixels: 1024 * unit * unit })).toEqual(size);
        expect(imageTokens(size, unit)).toBe(columns * rows);
      }),
    );
  });

  it('shrinks above the highest bound and enlarges below the lowest one', () => {
    const bounds = { unit: 28, minPixels: 16 * 784, maxPixels: 100 * 784 };
    fc.assert(
      fc.property(sides, sides, (width, height) => {
        fc.pre(Math.max(width, height) < 20 * Math.min(width, height));
        const size = smartResize({ width, height }, bounds)!;
        expect(size.width * size.height).toBeLessThanOrEqual(bounds.maxPixels);
        expect(size.width * size.height).toBeGreaterThanOrEqual(bounds.minPixels);
      }),
    );
  });

  it('takes a side that is 200 times the other, and none that is longer', () => {
    const bounds = { unit: 32, minPixels: 1024, maxPixels: 2 ** 24 };
    expect(smartResize({ width: 6400, height: 32 }, bounds)).toEqual({ width: 6400, height: 32 });
    expect(smartResize({ width: 6401, height: 32 }, bounds)).toBeNull();
    expect(smartResize({ width: 32, height: 6401 }, bounds)).toBeNull();
  });

  it('gives null for an image without area', () => {
    const bounds = { unit: 28, minPixels: 3136, maxPixels: 2 ** 24 };
    for (const [width, height] of [
      [0, 0],
      [0, 5],
      [5, 0],
    ] as const)
      expect(smartResize({ width, height }, bounds)).toBeNull();
  });

  it('gives very small images the size of transformers, not that of qwen_vl_utils', () => {
    const bounds = { unit: 28, minPixels: 3136, maxPixels: 12_845_056 };
    expect(smartResize({ width: 518, height: 3 }, bounds)).toEqual({ width: 756, height: 28 });
    expect(smartResize({ width: 13, height: 538 }, bounds)).toEqual({ width: 28, height: 364 });
  });
});
