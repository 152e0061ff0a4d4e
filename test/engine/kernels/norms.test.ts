import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anySeed, bitsOf, BUILDS, distance, dot, KernelBench, multipleOf, numericGradient, someFloats } from './kernel-bench.ts';

const EPSILON = 1e-6;

function reference(x: ArrayLike<number>, w: ArrayLike<number>): { readonly y: Float64Array; readonly inverse: number } {
  const inverse = 1 / Math.sqrt(dot(x, x) / x.length + EPSILON);
  return { y: Float64Array.from(x, (v, i) => v * inverse * w[i]!), inverse };
}

const vectorsOf = (x: Float32Array, d: number) => Array.from({ length: x.length / d }, (_, i) => x.subarray(i * d, (i + 1) * d));

describe.each(BUILDS)('norms (%s)', (build) => {
  const bench = new KernelBench(build);
  const anyArguments = [anySeed, fc.integer({ min: 0, max: 5 }), multipleOf(8, 72), fc.constantFrom(0, 4), fc.integer({ min: 1, max: 3 })] as const;

  it('divides each row, or each head of it, by its root mean square', () => {
    fc.assert(
      fc.property(...anyArguments, (seed, m, d, gap, heads) => {
        const { kernels } = bench.clear();
        const values = someFloats(seed, m * heads * d, 3);
        const weight = someFloats(seed + 1, d);
        const x = bench.matrix(values, m, heads * d, gap);
        const y = bench.matrix(
          values.map(() => Number.NaN),
          m,
          heads * d,
          gap * 2,
        );
        const w = bench.floats(weight);
        const inverse = bench.room(m * heads);
        kernels.headNorm(x.pointer, x.ld, w, y.pointer, y.ld, inverse, m, heads, d, EPSILON);
        const got = bench.read(y);
        const inverses = bench.readFloats(inverse, m * heads);
        const wanted = vectorsOf(values, d).map((vector) => reference(vector, weight));
        expect(
          distance(
            got,
            wanted.flatMap((v) => [...v.y]),
          ),
        ).toBeLessThan(2e-6);
        expect(
          distance(
            inverses,
            wanted.map((v) => v.inverse),
          ),
        ).toBeLessThan(2e-6);
        expect(bench.read(x)).toEqual(values);
        // A row is a head that fills it: the same bits, in place and without keeping 1 / rms.
        const rows = bench.matrix(values, m * heads, d, gap);
        kernels.rmsNorm(rows.pointer, rows.ld, w, rows.pointer, rows.ld, 0, m * heads, d, EPSILON);
        expect(bitsOf(bench.read(rows))).toEqual(bitsOf(got));
      }),
    );
  });

  it('gives NaN, not zeros, for finite numbers whose squares overflow', () => {
    const { kernels } = bench.clear();
    const x = bench.matrix(new Float32Array(8).fill(2e34), 1, 8, 0);
    kernels.rmsNorm(x.pointer, x.ld, bench.floats(new Float32Array(8).fill(1)), x.pointer, x.ld, 0, 1, 8, EPSILON);
    expect(bench.read(x)).toEqual(new Float32Array(8).fill(NaN));
  });

  it('gives the gradient of a row, or of each head of it, and adds to what is there', () => {
    fc.assert(
      fc.property(...anyArguments, (seed, m, d, gap, heads) => {
        const { kernels } = bench.clear();
        const values = someFloats(seed, m * heads * d);
        const weight = someFloats(seed + 1, d);
        const gradient = someFloats(seed + 2, values.length);
        const start = someFloats(seed + 3, values.length);
        const x = bench.matrix(values, m, heads * d, gap);
        const dy = bench.matrix(gradient, m, heads * d, gap * 2);
        const dx = bench.matrix(
          values.map(() => Number.NaN),
          m,
          heads * d,
          gap,
        );
        const w = bench.floats(weight);
        const inverse = bench.room(m * heads);
        kernels.headNorm(x.pointer, x.ld, w, bench.room(x.ld * m), x.ld, inverse, m, heads, d, EPSILON);
        kernels.headNormBackward(x.pointer, x.ld, w, inverse, dy.pointer, dy.ld, dx.pointer, dx.ld, m, heads, d);
        const got = bench.read(dx);
        const gradients = vectorsOf(gradient, d);
        const wanted = vectorsOf(values, d).flatMap((vector, i) => [...numericGradient((v) => dot(reference(v, weight).y, gradients[i]!), vector)]);
        expect(distance(got, wanted)).toBeLessThan(1e-4);
        const [rows, dRows] = [bench.matrix(values, m * heads, d), bench.matrix(gradient, m * heads, d)];
        const sums = bench.matrix(start, m * heads, d, gap);
        kernels.rmsNormBackward(rows.pointer, d, w, inverse, dRows.pointer, d, sums.pointer, sums.ld, m * heads, d, 1);
        expect(bitsOf(bench.read(sums))).toEqual(bitsOf(start.map((v, i) => Math.fround(got[i]!) + v)));
        kernels.rmsNormBackward(rows.pointer, d, w, inverse, dRows.pointer, d, sums.pointer, sums.ld, m * heads, d, 0);
        expect(bitsOf(bench.read(sums))).toEqual(bitsOf(got));
      }),
      { numRuns: 50 },
    );
  });

  it('keeps a NaN within its row', () => {
    const { kernels } = bench.clear();
    const x = bench.matrix(someFloats(1, 48).fill(Number.NaN, 20, 21), 3, 16);
    kernels.rmsNorm(x.pointer, 16, bench.floats(someFloats(2, 16)), x.pointer, 16, 0, 3, 16, EPSILON);
    expect([...bench.read(x)].map(Number.isNaN)).toEqual(Array.from({ length: 48 }, (_, i) => i >= 16 && i < 32));
  });
});
