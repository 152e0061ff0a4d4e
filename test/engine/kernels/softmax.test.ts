import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anySeed, bitsOf, BUILDS, distance, KernelBench, multipleOf, numericGradient, someFloats } from './kernel-bench.ts';

/** Of the first `valid`; the others are -Infinity. */
function reference(x: ArrayLike<number>, valid: number, inverseTemperature: number): Float64Array {
  const scaled = Float64Array.from(x, (v) => v * inverseTemperature);
  const max = scaled.subarray(0, valid).reduce((a, b) => Math.max(a, b), -Infinity);
  const total = scaled.subarray(0, valid).reduce((sum, v) => sum + Math.exp(v - max), 0);
  return scaled.map((v, i) => (i < valid ? v - max - Math.log(total) : -Infinity));
}

const entropyOf = (logProbs: Float64Array) => logProbs.reduce((sum, v) => (v === -Infinity ? sum : sum - Math.exp(v) * v), 0);
const anyRow = [anySeed, fc.integer({ min: 0, max: 4 }), multipleOf(4, 60), fc.nat(), fc.constantFrom(0.2, 1, 3)] as const;

describe.each(BUILDS)('logSoftmax (%s)', (build) => {
  const bench = new KernelBench(build);

  function logProbsOf(values: Float32Array, m: number, n: number, valid: number, inverseTemperature: number) {
    const x = bench.clear().matrix(values, m, n, 8);
    bench.kernels.logSoftmax(x.pointer, x.ld, m, n, valid, inverseTemperature);
    return { x, logProbs: bench.read(x) };
  }

  it('turns rows of logits into log-probs of the valid entries, and computes their entropy', () => {
    fc.assert(
      fc.property(...anyRow, (seed, m, n, cut, inverseTemperature) => {
        const valid = 1 + (cut % n);
        const values = someFloats(seed, m * n, 10);
        const { x, logProbs } = logProbsOf(values, m, n, valid, inverseTemperature);
        const wanted = Array.from({ length: m }, (_, row) => reference(values.subarray(row * n, (row + 1) * n), valid, inverseTemperature));
        expect(
          distance(
            logProbs,
            wanted.flatMap((row) => [...row]),
          ),
        ).toBeLessThan(1e-6);
        const out = bench.room(m);
        bench.kernels.entropy(x.pointer, x.ld, m, n, out);
        expect(distance(bench.readFloats(out, m), wanted.map(entropyOf))).toBeLessThan(3e-6);
      }),
    );
  });

  it('gives the gradient of log-prob and entropy', () => {
    fc.assert(
      fc.property(
        anySeed,
        fc.integer({ min: 0, max: 3 }),
        multipleOf(4, 24),
        fc.constantFrom(0.5, 1, 2),
        fc.boolean(),
        (seed, m, n, inverseTemperature, withEntropy) => {
          const values = someFloats(seed, m * n, 2);
          const { x } = logProbsOf(values, m, n, n, inverseTemperature);
          const targets = Array.from({ length: m }, (_, row) => (seed + row * 7) % n);
          const [dLogProbs, dEntropies] = [someFloats(seed + 1, m), someFloats(seed + 2, m)];
          const entropies = bench.room(m);
          bench.kernels.entropy(x.pointer, x.ld, m, n, entropies);
          const [h, dh] = withEntropy ? [entropies, bench.floats(dEntropies)] : [0, 0];
          bench.kernels.logSoftmaxBackward(x.pointer, x.ld, m, n, bench.ints(targets), bench.floats(dLogProbs), h, dh, inverseTemperature);
          const wanted = Array.from({ length: m }, (_, row) =>
            numericGradient(
              (logits) => {
                const logProbs = reference(logits, n, inverseTemperature);
                return dLogProbs[row]! * logProbs[targets[row]!]! + (withEntropy ? dEntropies[row]! * entropyOf(logProbs) : 0);
              },
              values.subarray(row * n, (row + 1) * n),
            ),
          );
          expect(
            distance(
              bench.read(x),
              wanted.flatMap((row) => [...row]),
            ),
          ).toBeLessThan(5e-6);
        },
      ),
    );
  });

  it('computes e^x to 3e-7, and takes what would be denormal as 0', () => {
    fc.assert(
      fc.property(fc.array(fc.float({ min: Math.fround(-200), max: 88, noNaN: true }), { minLength: 4, maxLength: 4 }), (exponents) => {
        const { kernels } = bench.clear();
        const x = bench.floats([...exponents, 0, 0, 0, 0]);
        kernels.logSoftmaxBackward(x, 8, 1, 8, bench.ints([7]), bench.floats([-1]), 0, 0, 1);
        const wanted = exponents.map((v) => (v < Math.fround(-87.3) ? 0 : Math.exp(v)));
        const ratios = [...bench.readFloats(x, 4)].map((v, i) => (wanted[i] === 0 ? 1 + v : v / wanted[i]!));
        for (const ratio of ratios) expect(Math.abs(ratio - 1)).toBeLessThan(3e-7);
      }),
      { numRuns: 500 },
    );
  });

  it('gives a row the same bits whatever rows are computed with it, and however long the padding is', () => {
    fc.assert(
      fc.property(...anyRow, (seed, m, n, cut, inverseTemperature) => {
        fc.pre(m > 0);
        const values = someFloats(seed, m * n, 10);
        const { logProbs } = logProbsOf(values, m, n, n, inverseTemperature);
        const row = cut % m;
        const padded = new Float32Array(n + 8).fill(Number.NaN);
        padded.set(values.subarray(row * n, (row + 1) * n));
        const alone = logProbsOf(padded, 1, n + 8, n, inverseTemperature).logProbs;
        expect(bitsOf(alone.subarray(0, n))).toEqual(bitsOf(logProbs.subarray(row * n, (row + 1) * n)));
      }),
    );
  });

  it('keeps five digits over a large vocabulary', () => {
    const n = 152_000;
    const values = someFloats(1, n, 0.5);
    const { x, logProbs } = logProbsOf(values, 1, n, n, 1);
    const wanted = reference(values, n, 1);
    expect(distance(logProbs, wanted)).toBeLessThan(3e-7);
    const out = bench.room(1);
    bench.kernels.entropy(x.pointer, x.ld, 1, n, out);
    expect(distance(bench.readFloats(out, 1), [entropyOf(wanted)])).toBeLessThan(3e-7);
  });

  it('shows a NaN or an infinity in its whole row and in no other', () => {
    for (const bad of [Number.NaN, Infinity]) {
      for (const place of [0, 3, 9, 11]) {
        const { x, logProbs } = logProbsOf(someFloats(1, 36).fill(bad, 12 + place, 13 + place), 3, 12, 12, 1);
        expect(logProbs.subarray(12, 24).every(Number.isNaN)).toBe(true);
        expect([...logProbs.subarray(0, 12), ...logProbs.subarray(24)].every(Number.isFinite)).toBe(true);
        const out = bench.room(3);
        bench.kernels.entropy(x.pointer, x.ld, 3, 12, out);
        expect([...bench.readFloats(out, 3)].map(Number.isNaN)).toEqual([false, true, false]);
      }
    }
  });

  it('shows a row of nothing but -Infinity as NaN', () => {
    expect(logProbsOf(new Float32Array(8).fill(-Infinity), 1, 8, 8, 1).logProbs.every(Number.isNaN)).toBe(true);
  });

  it('treats a logit of -Infinity as an impossible entry, in the gradient too', () => {
    const values = Float32Array.from([1, -Infinity, 2, 0.5]);
    const { x, logProbs } = logProbsOf(values, 1, 4, 4, 1);
    expect(distance(logProbs, reference(values, 4, 1))).toBeLessThan(1e-6);
    const out = bench.room(1);
    bench.kernels.entropy(x.pointer, x.ld, 1, 4, out);
    expect(bench.readFloats(out, 1)[0]).toBeGreaterThan(0);
    bench.kernels.logSoftmaxBackward(x.pointer, x.ld, 1, 4, bench.ints([2]), bench.floats([1]), out, bench.floats([1]), 1);
    const gradient = bench.read(x);
    expect(Math.abs(gradient[1]!)).toBe(0);
    expect(gradient.every(Number.isFinite)).toBe(true);
  });
});
