import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anyShape, AttentionCase, type AttentionInputs, referenceAttention, referenceGradients } from './attention-case.ts';
import { anySeed, bitsOf, BUILDS, distance, dot, KernelBench, someFloats } from './kernel-bench.ts';

const INPUTS = ['q', 'k', 'v'] as const;

describe('referenceGradients', () => {
  it('is the derivative of the reference, along random directions', () => {
    const shape = { length: 11, heads: 4, kvHeads: 2, d: 8, firstBlock: 0 };
    const inputs = { q: someFloats(1, 11 * 32), k: someFloats(2, 11 * 16), v: someFloats(3, 11 * 16) };
    const dOut = someFloats(4, 11 * 32);
    const gradients = referenceGradients(inputs, shape, dOut);
    for (const name of INPUTS) {
      for (let seed = 0; seed < 8; seed++) {
        const direction = someFloats(10 + seed, inputs[name].length);
        const along = (step: number) => {
          const moved = { ...inputs, [name]: Float64Array.from(inputs[name], (x, i) => x + step * direction[i]!) };
          return dot(referenceAttention(moved, shape, 0).out, dOut);
        };
        expect((along(1e-5) - along(-1e-5)) / 2e-5).toBeCloseTo(dot(gradients[name], direction), 6);
      }
    }
  });
});

describe.each(BUILDS)('attentionBackward (%s)', (build) => {
  const bench = new KernelBench(build);

  function written(seed: number, shape: ConstructorParameters<typeof AttentionCase>[2]) {
    const whole = new AttentionCase(bench.clear(), seed, shape);
    whole.write(0, shape.length);
    return whole;
  }

  it('gives the gradients of queries, keys and values', () => {
    fc.assert(
      fc.property(anySeed, anyShape(110), (seed, shape) => {
        const whole = written(seed, shape);
        const dOut = someFloats(seed + 3, whole.inputs.q.length, 1 / Math.sqrt(shape.d));
        const got = whole.backward(0, shape.length, dOut);
        const wanted = referenceGradients(whole.inputs, shape, dOut);
        for (const name of INPUTS) expect({ name, apart: distance(got[name], wanted[name]) < 2e-5 }).toEqual({ name, apart: true });
      }),
      { numRuns: 15 },
    );
  });

  it('gives the same gradients in two chunks, those of queries bit for bit', () => {
    fc.assert(
      fc.property(anySeed, anyShape(90), fc.nat(), (seed, shape, cut) => {
        fc.pre(shape.length > 1);
        const { length, heads, d } = shape;
        const middle = 1 + (cut % (length - 1));
        const dOut = someFloats(seed + 3, length * heads * d, 1 / Math.sqrt(d));
        const whole = written(seed, shape).backward(0, length, dOut);
        const parts = written(seed, shape);
        const early = parts.backward(0, middle, dOut.subarray(0, middle * heads * d));
        const late = parts.backward(middle, length, dOut.subarray(middle * heads * d));
        expect([...bitsOf(early.q), ...bitsOf(late.q)]).toEqual(bitsOf(whole.q));
        expect(distance(late.k, whole.k)).toBeLessThan(2e-5);
        expect(distance(late.v, whole.v)).toBeLessThan(2e-5);
      }),
      { numRuns: 12 },
    );
  });

  it('adds to the gradients of keys and values that are there', () => {
    const shape = { length: 21, heads: 4, kvHeads: 2, d: 16, firstBlock: 1 };
    const twice = written(1, shape);
    const dOut = someFloats(2, twice.inputs.q.length);
    const once: AttentionInputs = twice.backward(0, 21, dOut);
    const again: AttentionInputs = twice.backward(0, 21, dOut);
    for (const name of ['k', 'v'] as const)
      expect(
        distance(
          again[name],
          once[name].map((v) => 2 * v),
        ),
      ).toBeLessThan(1e-5);
    expect(bitsOf(again.q)).toEqual(bitsOf(once.q));
  });
});
