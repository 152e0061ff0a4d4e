/** Kernels over weights packed as bfloat16 compared with those over the same numbers packed as float32. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anySeed, bitsOf, BUILDS, KernelBench, multipleOf, someFloats } from './kernel-bench.ts';

const BOTH_ZEROS_AND_EXTREMES = [0, -0, 2 ** -133, -(2 ** -130), 2 ** 60, -(2 ** -60), 1 - 2 ** -8];
const roundedUp = (n: number) => Math.ceil(n / 8) * 8;

/** Numbers that bfloat16 holds, some of them as small or as large as few are. */
function someBfloat16(seed: number, count: number): Float32Array {
  const values = someFloats(seed, count);
  const bits = new Uint32Array(values.buffer);
  for (let i = 0; i < count; i++) bits[i] = bits[i]! & 0xffff0000;
  for (const [i, value] of BOTH_ZEROS_AND_EXTREMES.entries()) if (count > 0) values[(seed + 31 * i) % count] = value;
  return values;
}

describe.each(BUILDS)('kernels over bfloat16 (%s)', (build) => {
  const bench = new KernelBench(build);

  /** A weight `[n, k]` packed both ways. */
  function packBoth(weight: Float32Array, n: number, k: number): { float32: number; bfloat16: number } {
    const rows = bench.floats(weight);
    const packed = { float32: bench.room(roundedUp(n) * k), bfloat16: bench.room((roundedUp(n) * k) / 2) };
    bench.kernels.pack(rows, k, packed.float32, k, n, 1);
    bench.kernels.packBfloat16(rows, k, packed.bfloat16, k, n, 1);
    return packed;
  }

  it('multiply to the bits that float32 gives, whatever the shape, the strides and the piece of the sum', () => {
    // Around what is tiled, stripped and blocked: 6, 32 columns, 48, 96 rows; 64 and more terms.
    const anyRows = fc.oneof(fc.integer({ min: 0, max: 20 }), fc.constantFrom(23, 47, 48, 49, 53, 96, 97, 101));
    const anyK = fc.oneof(fc.integer({ min: 0, max: 70 }), fc.constantFrom(127, 128, 129, 199));
    const anyOffset = fc.constantFrom(0, 1, 7, 64);
    fc.assert(
      fc.property(anySeed, anyRows, multipleOf(8, 104), anyK, anyOffset, anyOffset, fc.boolean(), (seed, m, n, k, before, behind, goesOn) => {
        bench.clear();
        const whole = before + k + behind;
        const packed = packBoth(someBfloat16(seed, n * whole), n, whole);
        const a = bench.matrix(someFloats(seed + 1, m * k), m, k, 4);
        const results = (['float32', 'bfloat16'] as const).map((type) => {
          const c = bench.matrix(someFloats(seed + 2, m * n), m, n, 12);
          const [from, sizes] = [before * 8, [m, n, k, goesOn ? 1 : 0] as const];
          if (type === 'float32') bench.kernels.gemm(a.pointer, a.ld, packed[type] + from * 4, whole * 8, c.pointer, c.ld, ...sizes);
          else bench.kernels.gemmBfloat16(a.pointer, a.ld, packed[type] + from * 2, whole * 8, c.pointer, c.ld, ...sizes);
          return bitsOf(bench.read(c));
        });
        expect(results[1]).toEqual(results[0]);
      }),
      { numRuns: 150 },
    );
  });

  it('give rows of a weight back to the bit, by id', () => {
    fc.assert(
      fc.property(anySeed, multipleOf(8, 40), fc.integer({ min: 1, max: 40 }), fc.array(fc.nat(), { maxLength: 8 }), (seed, k, n, picks) => {
        const { kernels } = bench.clear();
        const weight = someBfloat16(seed, n * k);
        const { bfloat16 } = packBoth(weight, n, k);
        const ids = picks.map((id) => id % n);
        const rows = bench.matrix(new Float32Array(ids.length * k), ids.length, k, 5);
        kernels.gatherRowsBfloat16(bfloat16, k, bench.ints(ids), rows.pointer, rows.ld, ids.length);
        const wanted = Float32Array.from(ids.flatMap((id) => [...weight.subarray(id * k, (id + 1) * k)]));
        expect(bitsOf(bench.read(rows))).toEqual(bitsOf(wanted));
      }),
    );
  });

  it('pack rows or columns, and fill the last panel up with zeros', () => {
    fc.assert(
      fc.property(anySeed, fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 30 }), fc.boolean(), (seed, k, n, transposed) => {
        const { kernels } = bench.clear();
        const values = someBfloat16(seed, k * n);
        const source = transposed ? bench.matrix(values, n, k, 3) : bench.matrix(values, k, n, 3);
        const [float32, bfloat16] = [bench.room(roundedUp(n) * k), bench.room((roundedUp(n) * k) / 2)];
        kernels.pack(source.pointer, source.ld, float32, k, n, transposed ? 1 : 0);
        kernels.packBfloat16(source.pointer, source.ld, bfloat16, k, n, transposed ? 1 : 0);
        const wanted = bitsOf(bench.readFloats(float32, roundedUp(n) * k));
        const halves = bench.readFloats(bfloat16, (roundedUp(n) * k) / 2);
        expect([...new Uint16Array(halves.buffer)].map((half) => (half << 16) >>> 0)).toEqual(wanted);
      }),
    );
  });

  it('repack a weight for the gradient of its input as float32, to the bits that float32 gives', () => {
    fc.assert(
      fc.property(anySeed, multipleOf(8, 40), fc.integer({ min: 1, max: 50 }), fc.nat(), fc.nat(), (seed, k, n, from, length) => {
        const { kernels } = bench.clear();
        const packed = packBoth(someBfloat16(seed, n * k), n, k);
        const first = 8 * Math.floor((from % n) / 8);
        const count = 1 + (length % (n - first));
        const [wanted, got] = [bench.room(k * roundedUp(count)), bench.room(k * roundedUp(count))];
        kernels.repackTransposed(packed.float32, k, first, count, wanted);
        kernels.repackTransposedBfloat16(packed.bfloat16, k, first, count, got);
        expect(bitsOf(bench.readFloats(got, k * roundedUp(count)))).toEqual(bitsOf(bench.readFloats(wanted, k * roundedUp(count))));
      }),
    );
  });
});
