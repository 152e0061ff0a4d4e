import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anySeed, BUILDS, KernelBench, someFloats } from './kernel-bench.ts';

const special = fc.constantFrom(0, -0, 1, -1, 1e30, -Infinity, Infinity);
const anyValues = fc.array(fc.oneof(special, fc.float({ noNaN: true })), { minLength: 1, maxLength: 30 });

describe.each(BUILDS)('pick (%s)', (build) => {
  const bench = new KernelBench(build);

  it('finds the entry under which u lies', () => {
    fc.assert(
      fc.property(anySeed, fc.integer({ min: 1, max: 40 }), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (seed, n, u) => {
        const weights = someFloats(seed, n).map((v, i) => ((seed + i) % 5 === 0 ? 0 : Math.abs(v) + 1e-3));
        const total = weights.reduce((a, b) => a + b, 0);
        fc.pre(total > 0);
        const logProbs = weights.map((v) => Math.log(v / total));
        const index = bench.clear().kernels.pick(bench.floats(logProbs), n, u);
        const below = (end: number) => logProbs.subarray(0, end).reduce((sum, v) => sum + Math.exp(v), 0);
        if (index === -1) return u > 1 - 1e-5;
        expect(weights[index]).toBeGreaterThan(0);
        return below(index) - 1e-6 <= u && u < below(index + 1) + 1e-6;
      }),
    );
  });

  it('never picks what is impossible, and reports when nothing is left', () => {
    const row = [-Infinity, Math.log(0.5), -Infinity, -Infinity, Math.log(0.49), -Infinity];
    const { kernels } = bench.clear();
    const at = bench.floats(row);
    expect([0, 0.49, 0.51, 0.98].map((u) => kernels.pick(at, 6, u))).toEqual([1, 1, 4, 4]);
    expect(kernels.pick(at, 6, 0.995)).toBe(-1);
    expect(kernels.pick(at, 0, 0)).toBe(-1);
    for (let i = 0; i < 7; i++) expect(kernels.pick(bench.floats(new Float32Array(7).fill(-Infinity).fill(0, i, i + 1)), 7, 0)).toBe(i);
    expect(kernels.pick(bench.floats([Number.NaN, 0]), 2, 0.5)).toBe(-1);
  });
});

describe.each(BUILDS)('argmax and countAbove (%s)', (build) => {
  const bench = new KernelBench(build);

  it('give the lowest index of the largest value, and how many are above a value', () => {
    fc.assert(
      fc.property(anyValues, fc.nat(), (values, which) => {
        const x = bench.clear().floats(values);
        const value = values[which % values.length]!;
        expect(bench.kernels.argmax(x, values.length)).toBe(values.indexOf(Math.max(...values)));
        expect(bench.kernels.countAbove(x, values.length, value)).toBe(values.filter((v) => v > value).length);
      }),
    );
  });

  it('argmax gives -1 where a value is NaN', () => {
    for (let i = 0; i < 7; i++) expect(bench.clear().kernels.argmax(bench.floats(someFloats(1, 7).fill(Number.NaN, i, i + 1)), 7)).toBe(-1);
  });
});
