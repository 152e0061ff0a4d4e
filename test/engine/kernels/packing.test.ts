import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anySeed, BUILDS, KernelBench, multipleOf, someFloats } from './kernel-bench.ts';

describe.each(BUILDS)('packing (%s)', (build) => {
  const bench = new KernelBench(build);
  const roundedUp = (n: number) => Math.ceil(n / 8) * 8;

  it('packs a matrix in panels of 8 columns, filled up with zeros', () => {
    fc.assert(
      fc.property(
        anySeed,
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 30 }),
        fc.boolean(),
        fc.constantFrom(0, 3),
        (seed, k, n, transposed, gap) => {
          const { kernels } = bench.clear();
          const values = someFloats(seed, k * n);
          const source = transposed ? bench.matrix(values, n, k, gap) : bench.matrix(values, k, n, gap);
          const packed = bench.room(roundedUp(n) * k);
          kernels.pack(source.pointer, source.ld, packed, k, n, transposed ? 1 : 0);
          const got = bench.readFloats(packed, roundedUp(n) * k);
          const wanted = got.map((_, at) => {
            const [panel, row, lane] = [Math.floor(at / (8 * k)), Math.floor(at / 8) % k, at % 8];
            const column = panel * 8 + lane;
            return column < n ? values[transposed ? column * k + row : row * n + column]! : 0;
          });
          expect(got).toEqual(wanted);
        },
      ),
    );
  });

  it('gives rows of a packed weight back, in a range and by id', () => {
    fc.assert(
      fc.property(
        anySeed,
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 40 }),
        fc.array(fc.nat(), { maxLength: 8 }),
        (seed, k, n, picks) => {
          const { kernels } = bench.clear();
          const weight = someFloats(seed, n * k);
          const packed = bench.room(roundedUp(n) * k);
          kernels.pack(bench.floats(weight), k, packed, k, n, 1);
          const first = 8 * Math.floor((seed % n) / 8);
          const rows = bench.matrix(new Float32Array((n - first) * k), n - first, k, 5);
          kernels.unpackRows(packed, k, first, n - first, rows.pointer, rows.ld);
          expect(bench.read(rows)).toEqual(weight.slice(first * k));
          const ids = picks.map((id) => id % n);
          const gathered = bench.matrix(new Float32Array(ids.length * k), ids.length, k, 5);
          kernels.gatherRows(packed, k, bench.ints(ids), gathered.pointer, gathered.ld, ids.length);
          expect(bench.read(gathered)).toEqual(Float32Array.from(ids.flatMap((id) => [...weight.subarray(id * k, (id + 1) * k)])));
        },
      ),
    );
  });

  it('repacks a weight as the right-hand side of the gradient of its input', () => {
    fc.assert(
      fc.property(anySeed, multipleOf(8, 40), fc.integer({ min: 1, max: 50 }), fc.nat(), fc.nat(), (seed, k, n, from, length) => {
        const { kernels } = bench.clear();
        const weight = someFloats(seed, n * k);
        const packed = bench.room(roundedUp(n) * k);
        kernels.pack(bench.floats(weight), k, packed, k, n, 1);
        const first = 8 * Math.floor((from % n) / 8);
        const count = 1 + (length % (n - first));
        const out = bench.room(k * roundedUp(count));
        kernels.repackTransposed(packed, k, first, count, out);
        const got = bench.readFloats(out, k * roundedUp(count));
        const wanted = got.map((_, at) => {
          const [panel, row, lane] = [Math.floor(at / (8 * roundedUp(count))), Math.floor(at / 8) % roundedUp(count), at % 8];
          return row < count ? weight[(first + row) * k + panel * 8 + lane]! : 0;
        });
        expect(got).toEqual(wanted);
      }),
    );
  });
});
