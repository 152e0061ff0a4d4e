import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { curveRows } from '../../../src/reports/text/curve-rows.ts';

const points = (...values: readonly number[]) => values.map((value, i) => ({ step: i + 1, value }));
const draw = (values: readonly number[], options: { width: number; height: number; steps: number }) =>
  curveRows(points(...values), { ...options, leastSpan: 0.1 });

describe('curveRows', () => {
  it('rises from the lowest value to the highest, and leaves room for the steps to come', () => {
    expect(draw([0, 0.5, 1], { width: 4, height: 2, steps: 4 })).toEqual([' ▁█ ', '▁██ ']);
  });

  it('gives a step of a short run several columns, and a column of a long run the mean of its steps', () => {
    expect(draw([0, 1], { width: 6, height: 1, steps: 3 })).toEqual(['▁▁██  ']);
    expect(draw([0, 1, 1, 1], { width: 2, height: 1, steps: 4 })).toEqual(['▅█']);
  });

  it('shows noise as small as it is, and no column where no step has a value', () => {
    expect(draw([0.5, 0.51, 0.5], { width: 3, height: 1, steps: 3 })).toEqual(['▁▂▁']);
    const gap = [1, 3].map((step) => ({ step, value: step }));
    expect(curveRows(gap, { width: 3, height: 1, steps: 3, leastSpan: 0.1 })).toEqual(['▁ █']);
  });

  it('is a rectangle of its width and height whose columns are filled from below, whatever the values', () => {
    const size = fc.record({
      width: fc.integer({ min: 1, max: 60 }),
      height: fc.integer({ min: 1, max: 5 }),
      steps: fc.integer({ min: 1, max: 200 }),
    });
    const values = fc.array(fc.double({ min: -10, max: 10, noNaN: true }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(values, size, (some, options) => {
        const rows = draw(some.slice(0, options.steps), options);
        expect(rows.map((row) => row.length)).toEqual(Array.from({ length: options.height }, () => options.width));
        for (let column = 0; column < options.width; column++) {
          const bottomUp = rows.map((row) => row[column]!).toReversed();
          expect(bottomUp.join('')).toMatch(/^█*[▁▂▃▄▅▆▇]? *$/);
        }
      }),
    );
  });
});
