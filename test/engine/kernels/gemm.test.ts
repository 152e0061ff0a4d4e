import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anySeed, bitsOf, BUILDS, KernelBench, multipleOf, someFloats } from './kernel-bench.ts';

const anyK = fc.oneof(fc.integer({ min: 0, max: 70 }), fc.integer({ min: 505, max: 525 }), fc.constant(1040));
const anyGap = fc.constantFrom(0, 4, 12);

interface Sums {
  /** Where each of the sums begins; null at 0. */
  readonly start: Float32Array | null;
  readonly count: number;
  /** Term `k` of sum `i`. */
  readonly term: (i: number, k: number) => number;
}

/** Whether every sum of products is as near to the float64 one as float32 allows. */
function isSumOf(got: Float32Array, { start, count, term }: Sums): boolean {
  return got.every((value, i) => {
    let sum = start?.[i] ?? 0;
    let size = Math.abs(sum);
    for (let k = 0; k < count; k++) {
      const next = term(i, k);
      sum += next;
      size += Math.abs(next);
    }
    return Math.abs(value - sum) <= (count + 3) * 2 ** -23 * size;
  });
}

describe.each(BUILDS)('gemm (%s)', (build) => {
  const bench = new KernelBench(build);

  /** C of `a` [m, k] and `b` [k, n], optionally cut at `split` of k and going on from `start`. */
  function multiply(
    a: Float32Array,
    b: Float32Array,
    m: number,
    n: number,
    k: number,
    o: { gap?: number; split?: number; start?: Float32Array } = {},
  ) {
    const { kernels } = bench.clear();
    const left = bench.matrix(a, m, k, o.gap);
    const right = bench.room(n * k);
    kernels.pack(bench.floats(b), n, right, k, n, 0);
    const result = bench.matrix(o.start ?? new Float32Array(m * n).fill(Number.NaN), m, n, o.gap);
    const split = o.split ?? 0;
    if (split > 0) kernels.gemm(left.pointer, left.ld, right, k * 8, result.pointer, result.ld, m, n, split, o.start ? 1 : 0);
    const goesOn = split > 0 || o.start ? 1 : 0;
    kernels.gemm(left.pointer + split * 4, left.ld, right + split * 32, k * 8, result.pointer, result.ld, m, n, k - split, goesOn);
    return bench.read(result);
  }

  it('is the matrix product, whatever the shape and the strides', () => {
    fc.assert(
      fc.property(anySeed, fc.integer({ min: 1, max: 31 }), multipleOf(8, 80), anyK, anyGap, fc.boolean(), (seed, m, n, k, gap, goesOn) => {
        const a = someFloats(seed, m * k);
        const b = someFloats(seed + 1, k * n);
        const start = goesOn ? someFloats(seed + 2, m * n) : null;
        const c = multiply(a, b, m, n, k, { gap, ...(start && { start }) });
        const term = (i: number, j: number) => a[Math.floor(i / n) * k + j]! * b[j * n + (i % n)]!;
        expect(isSumOf(c, { start, count: k, term })).toBe(true);
      }),
      { numRuns: 60 },
    );
  });

  it('gives a row the same bits whatever rows are computed with it', () => {
    fc.assert(
      fc.property(
        anySeed,
        fc.integer({ min: 1, max: 130 }),
        multipleOf(8, 48),
        anyK,
        fc.array(fc.nat(), { minLength: 1, maxLength: 9 }),
        (seed, m, n, k, picks) => {
          const a = someFloats(seed, m * k);
          const b = someFloats(seed + 1, k * n);
          const rows = picks.map((i) => i % m);
          const some = Float32Array.from(rows.flatMap((row) => [...a.subarray(row * k, (row + 1) * k)]));
          const all = multiply(a, b, m, n, k);
          const wanted = Float32Array.from(rows.flatMap((row) => [...all.subarray(row * n, (row + 1) * n)]));
          expect(bitsOf(multiply(some, b, rows.length, n, k))).toEqual(bitsOf(wanted));
        },
      ),
      { numRuns: 40 },
    );
  });

  it('gives the same bits when the sum is cut in two between pieces of 64', () => {
    const longK = fc.integer({ min: 1, max: 400 });
    fc.assert(
      fc.property(anySeed, fc.integer({ min: 1, max: 20 }), multipleOf(8, 48), longK, fc.nat(), (seed, m, n, k, cut) => {
        const a = someFloats(seed, m * k);
        const b = someFloats(seed + 1, k * n);
        const split = 64 * (cut % (Math.floor(k / 64) + 1));
        expect(bitsOf(multiply(a, b, m, n, k, { split }))).toEqual(bitsOf(multiply(a, b, m, n, k)));
      }),
      { numRuns: 40 },
    );
  });

  it('keeps a NaN and an infinity within their row', () => {
    for (const m of [1, 2, 4, 5, 6, 13]) {
      const a = someFloats(1, m * 9).fill(Number.NaN, 0, 1);
      if (m > 1) a[9] = Infinity;
      const c = multiply(a, someFloats(2, 9 * 40), m, 40, 9);
      expect(c.subarray(0, 40).every(Number.isNaN)).toBe(true);
      expect(c.subarray(40, 80).every((v) => Math.abs(v) === Infinity)).toBe(true);
      expect(c.subarray(80).every(Number.isFinite)).toBe(true);
    }
  });

  it('takes panels that lie apart', () => {
    const [m, n, k] = [7, 40, 5];
    const a = someFloats(3, m * k);
    const b = someFloats(4, k * n);
    const wanted = multiply(a, b, m, n, k);
    const { kernels } = bench.clear();
    const right = bench.room((n / 8) * 64);
    for (let panel = 0; panel < n / 8; panel++) kernels.pack(bench.floats(b) + panel * 32, n, right + panel * 256, k, 8, 0);
    const result = bench.matrix(new Float32Array(m * n), m, n);
    kernels.gemm(bench.floats(a), k, right, 64, result.pointer, n, m, n, k, 0);
    expect(bitsOf(bench.read(result))).toEqual(bitsOf(wanted));
  });

  it('touches nothing where there are no rows, and sets 0 where there is nothing to sum', () => {
    expect(multiply(new Float32Array(0), someFloats(1, 64), 0, 8, 8)).toHaveLength(0);
    expect(bitsOf(multiply(new Float32Array(0), new Float32Array(0), 7, 8, 0))).toEqual(bitsOf(new Float32Array(56)));
  });
});

describe.each(BUILDS)('gemmTransposed (%s)', (build) => {
  const bench = new KernelBench(build);

  function multiply(a: Float32Array, b: Float32Array, start: Float32Array, o: { m: number; i: number; n: number; gap?: number; split?: number }) {
    const { kernels } = bench.clear();
    const left = bench.matrix(a, o.m, o.i, o.gap);
    const right = bench.matrix(b, o.m, o.n, o.gap);
    const result = bench.matrix(start, o.i, o.n, o.gap);
    const split = o.split ?? 0;
    kernels.gemmTransposed(left.pointer, left.ld, right.pointer, right.ld, result.pointer, result.ld, split, o.i, o.n);
    const [restA, restB] = [left.pointer + split * left.ld * 4, right.pointer + split * right.ld * 4];
    kernels.gemmTransposed(restA, left.ld, restB, right.ld, result.pointer, result.ld, o.m - split, o.i, o.n);
    return bench.read(result);
  }

  it('adds the product of the transposed, whatever the shape and the strides', () => {
    const anyM = fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 250, max: 270 }));
    fc.assert(
      fc.property(anySeed, anyM, fc.integer({ min: 1, max: 30 }), multipleOf(8, 48), anyGap, fc.nat(), (seed, m, i, n, gap, cut) => {
        const a = someFloats(seed, m * i);
        const b = someFloats(seed + 1, m * n);
        const start = someFloats(seed + 2, i * n);
        const c = multiply(a, b, start, { m, i, n, gap });
        expect(bitsOf(multiply(a, b, start, { m, i, n, gap, split: cut % (m + 1) }))).toEqual(bitsOf(c));
        return isSumOf(c, { start, count: m, term: (at, k) => a[k * i + Math.floor(at / n)]! * b[k * n + (at % n)]! });
      }),
      { numRuns: 60 },
    );
  });
});
