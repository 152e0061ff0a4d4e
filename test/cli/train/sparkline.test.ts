import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { barColumns, sparkline } from '../../../src/cli/train/sparkline.ts';

describe('sparkline', () => {
  it('puts the lowest value at the bottom and the highest at the top', () => {
    expect(sparkline([0, 0.5, 1], { width: 10, leastSpan: 0.1 })).toBe('▁▅█');
  });

  it('shows the last values where there are more than columns', () => {
    expect(sparkline([9, 0, 1], { width: 2, leastSpan: 0.1 })).toBe('▁█');
  });

  it('shows noise as small as it is', () => {
    expect(sparkline([0.5, 0.51, 0.5], { width: 10, leastSpan: 0.1 })).toBe('▁▂▁');
  });
});

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
