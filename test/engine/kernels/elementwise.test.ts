import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { anySeed, BUILDS, distance, KernelBench, multipleOf, someFloats } from './kernel-bench.ts';

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

describe.each(BUILDS)('rotate (%s)', (build) => {
  const bench = new KernelBench(build);
  const POSITIONS = 9;

  /** [position][d]: cosines, then sines. */
  const tableOf = (d: number) =>
    Float32Array.from({ length: POSITIONS * d }, (_, at) => {
      const [position, i] = [Math.floor(at / d), at % d];
      const angle = position / 10_000 ** ((2 * (i % (d / 2))) / d);
      return i < d / 2 ? Math.cos(angle) : Math.sin(angle);
    });

  it('rotates pairs, one number of each half, by the angle of their position, and back', () => {
    fc.assert(
      fc.property(
        anySeed,
        fc.integer({ min: 0, max: 6 }),
        fc.integer({ min: 1, max: 3 }),
        multipleOf(8, 64),
        fc.constantFrom(1, 0.25),
        (seed, m, heads, d, scale) => {
          const { kernels } = bench.clear();
          const values = someFloats(seed, m * heads * d);
          const positions = Array.from({ length: m }, (_, row) => (seed + row * 5) % POSITIONS);
          const x = bench.matrix(values, m, heads * d, 4);
          const table = bench.floats(tableOf(d));
          const at = bench.ints(positions);
          kernels.rotate(x.pointer, x.ld, m, heads, d, table, at, 1, scale);
          const wanted = values.map((v, index) => {
            const i = index % d;
            const angle = positions[Math.floor(index / (heads * d))]! / 10_000 ** ((2 * (i % (d / 2))) / d);
            const other = i < d / 2 ? -values[index + d / 2]! : values[index - d / 2]!;
            return scale * (v * Math.cos(angle) + other * Math.sin(angle));
          });
          expect(distance(bench.read(x), wanted)).toBeLessThan(1e-6);
          kernels.rotate(x.pointer, x.ld, m, heads, d, table, at, -1, 1 / scale);
          expect(distance(bench.read(x), values)).toBeLessThan(1e-6);
        },
      ),
    );
  });
});

describe.each(BUILDS)('siluMultiply (%s)', (build) => {
  const bench = new KernelBench(build);

  it('is silu(gate) · up, and its gradients take the place of gate and up', () => {
    fc.assert(
      fc.property(anySeed, fc.integer({ min: 0, max: 4 }), multipleOf(4, 40), fc.constantFrom(1, 40), (seed, m, n, scale) => {
        const { kernels } = bench.clear();
        const [gates, ups, dOuts] = [someFloats(seed, m * n, scale), someFloats(seed + 1, m * n), someFloats(seed + 2, m * n)];
        const [gate, up, out] = [bench.matrix(gates, m, n, 4), bench.matrix(ups, m, n, 8), bench.matrix(gates, m, n, 12)];
        kernels.siluMultiply(gate.pointer, gate.ld, up.pointer, up.ld, out.pointer, out.ld, m, n);
        expect(
          distance(
            bench.read(out),
            gates.map((x, i) => x * sigmoid(x) * ups[i]!),
          ),
        ).toBeLessThan(1e-6);
        const dOut = bench.matrix(dOuts, m, n, 4);
        kernels.siluMultiplyBackward(gate.pointer, gate.ld, up.pointer, up.ld, dOut.pointer, dOut.ld, m, n);
        const slopes = gates.map((x) => sigmoid(x) * (1 + x * (1 - sigmoid(x))));
        expect(
          distance(
            bench.read(gate),
            dOuts.map((g, i) => g * ups[i]! * slopes[i]!),
          ),
        ).toBeLessThan(2e-6);
        expect(
          distance(
            bench.read(up),
            dOuts.map((g, i) => g * gates[i]! * sigmoid(gates[i]!)),
          ),
        ).toBeLessThan(1e-6);
        expect(bench.read(dOut)).toEqual(dOuts);
      }),
    );
  });

  it('stays finite for large numbers and shows a NaN', () => {
    const { kernels } = bench.clear();
    const gate = bench.floats([-1e30, -200, 200, 1e30, Number.NaN, 0, 1, -1]);
    const out = bench.room(8);
    kernels.siluMultiply(gate, 8, bench.floats(new Float32Array(8).fill(1)), 8, out, 8, 1, 8);
    const got = bench.readFloats(out, 8);
    expect(distance(got.subarray(1), [0, 200, 1e30, Number.NaN, 0, sigmoid(1), -sigmoid(-1)])).toBeLessThan(1e-6);
    expect(Math.abs(got[0]!)).toBeLessThan(1e-6);
  });
});

describe.each(BUILDS)('addTo (%s)', (build) => {
  it('adds number by number', () => {
    const bench = new KernelBench(build);
    const [a, b] = [someFloats(1, 20), someFloats(2, 20)];
    const pointer = bench.floats(a);
    bench.kernels.addTo(pointer, bench.floats(b), 20);
    expect(bench.readFloats(pointer, 20)).toEqual(a.map((v, i) => v + b[i]!));
  });
});
