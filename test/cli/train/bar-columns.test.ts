import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { barColumns } from '../../../src/cli/train/live-block-lines.ts';

describe('barColumns', () => {
  it('divides in proportion', () => {
    expect(barColumns([2, 1, 1], 8)).toEqual([4, 2, 2]);
    expect(barColumns([97, 2, 1], 10)).toEqual([8, 1, 1]);
  });

  it('shows every part that is there, no other, and fills the width', () => {
    const parts = fc.array(fc.oneof(fc.constant(0), fc.double({ min: 1e-3, max: 1e3, noNaN: true })), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(parts, fc.integer({ min: 5, max: 60 }), (some, width) => {
        const columns = barColumns(some, width);
        expect(columns.map((n) => n > 0)).toEqual(some.map((part) => part > 0));
        expect(columns.reduce((sum, n) => sum + n, 0)).toBe(some.some((part) => part > 0) ? width : 0);
      }),
    );
  });
});
