import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anySeed, BUILDS, distance, dot, KernelBench, multipleOf, someFloats } from './kernel-bench.ts';

describe.each(BUILDS)('optimizer (%s)', (build) => {
  const bench = new KernelBench(build);

  it('sums squares in float64', () => {
    fc.assert(
      fc.property(anySeed, fc.integer({ min: 0, max: 50 }), fc.constantFrom(1, 1e-25, 1e25), (seed, n, scale) => {
        const values = someFloats(seed, n, scale);
        const wanted = dot(values, values);
        expect(Math.abs(bench.clear().kernels.sumOfSquares(bench.floats(values), n) - wanted)).toBeLessThanOrEqual(1e-14 * wanted);
      }),
    );
  });

  it('finds one number that is not finite, anywhere', () => {
    fc.assert(
      fc.property(anySeed, fc.integer({ min: 0, max: 50 }), fc.nat(), fc.constantFrom(Number.NaN, Infinity, -Infinity), (seed, n, where, bad) => {
        const values = someFloats(seed, n, 1e38);
        const at = bench.clear().floats(values);
        expect(bench.kernels.allFinite(at, n)).toBe(1);
        if (n === 0) return;
        bench.view(at, n)[where % n] = bad;
        expect(bench.kernels.allFinite(at, n)).toBe(0);
      }),
    );
  });

  it('takes steps of Adam with decoupled weight decay', () => {
    fc.assert(
      fc.property(anySeed, multipleOf(4, 40), fc.constantFrom(0, 0.1), fc.constantFrom(1, 1e-3), (seed, n, weightDecay, gradientScale) => {
        bench.clear();
        const [lr, beta1, beta2, epsilon, scale] = [1e-2, 0.9, 0.999, 1e-8, 0.5];
        const p = someFloats(seed, n);
        const wanted = { p: Float64Array.from(p), m: new Float64Array(n), v: new Float64Array(n) };
        const [pAt, mAt, vAt] = [bench.floats(p), bench.room(n, 0), bench.room(n, 0)];
        for (let t = 1; t <= 4; t++) {
          const g = someFloats(seed + t, n, gradientScale);
          const [c1, c2] = [1 - beta1 ** t, 1 - beta2 ** t];
          const gAt = bench.floats(g);
          bench.kernels.adam(pAt, gAt, mAt, vAt, n, scale, lr, beta1, beta2, epsilon, weightDecay, c1, c2);
          expect(bench.readFloats(gAt, n)).toEqual(g);
          for (let i = 0; i < n; i++) {
            const gradient = g[i]! * scale;
            wanted.m[i] = beta1 * wanted.m[i]! + (1 - beta1) * gradient;
            wanted.v[i] = beta2 * wanted.v[i]! + (1 - beta2) * gradient ** 2;
            wanted.p[i] = wanted.p[i]! * (1 - lr * weightDecay) - (lr * (wanted.m[i]! / c1)) / (Math.sqrt(wanted.v[i]! / c2) + epsilon);
          }
        }
        expect(distance(bench.readFloats(pAt, n), wanted.p)).toBeLessThan(5e-7);
        const relative = (got: Float32Array, exact: Float64Array) =>
          distance(
            got.map((v, i) => v / exact[i]!),
            exact.map(() => 1),
          );
        expect(relative(bench.readFloats(vAt, n), wanted.v)).toBeLessThan(1e-6);
        expect(distance(bench.readFloats(mAt, n), wanted.m)).toBeLessThan(1e-7);
      }),
    );
  });
});
