import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { likeliest } from '../../../src/engine/sampler/likeliest.ts';

describe('likeliest', () => {
  it('is the beginning of the whole order, equal ones by their place', () => {
    const numbers = fc.array(fc.oneof(fc.integer({ min: -3, max: 3 }), fc.float({ noNaN: true })), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(numbers, fc.nat(400), fc.nat(5), (values, count, offset) => {
        const padded = Float32Array.from([...Array.from({ length: offset }, () => 1e9), ...values, 1e9]);
        const order = values.map((_, i) => i).toSorted((a, b) => padded[offset + b]! - padded[offset + a]! || a - b);
        expect([...likeliest(padded, offset, values.length, count)]).toEqual(order.slice(0, count));
      }),
      { numRuns: 300 },
    );
  });
});
