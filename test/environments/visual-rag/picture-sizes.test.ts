import fc from 'fast-check';
import { fitPixels, SHOWN_PIXELS } from 'vf-search/environments/visual-rag';
import { describe, expect, it } from 'vitest';

describe('fitPixels', () => {
  // Upstream's sizes are in test/golden/visual-rag (npm run parity).
  it('gives whole sides of at least 0, of the longest pictures, too', () => {
    const sides = fc.integer({ min: 1, max: 10_000_000 });
    fc.assert(
      fc.property(sides, sides, (width, height) => {
        const size = fitPixels({ width, height }, SHOWN_PIXELS);
        for (const side of [size.width, size.height]) expect(Number.isInteger(side) && side >= 0).toBe(true);
      }),
      {
        examples: [
          [1_000_000, 1],
          [940_859, 2],
        ],
      },
    );
  });
});
