import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { instantiateKernels } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';
import { AttentionCase } from './attention-case.ts';
import { bitsOf, BUILDS, distance, KernelBench, someFloats } from './kernel-bench.ts';

describe('loadKernelsModule', () => {
  it('uses the relaxed build if this Node runs it, or the one that is asked for', () => {
    const relaxed = readFileSync(join(import.meta.dirname, '../../../src/engine/kernels/wasm/relaxed.wasm'));
    expect(loadKernelsModule().build).toBe(WebAssembly.validate(relaxed) ? 'relaxed' : 'plain');
    for (const build of BUILDS) expect(loadKernelsModule(build).build).toBe(build);
  });

  it('has builds that agree to the fifth digit', () => {
    const [m, n, k] = [9, 64, 300];
    const results = BUILDS.map((build) => {
      const bench = new KernelBench(build);
      const { kernels } = bench;
      const packed = bench.room(n * k);
      kernels.pack(bench.floats(someFloats(1, n * k, 0.3)), k, packed, k, n, 1);
      const logits = bench.matrix(new Float32Array(m * n), m, n);
      kernels.gemm(bench.floats(someFloats(2, m * k)), k, packed, k * 8, logits.pointer, n, m, n, k, 0);
      kernels.logSoftmax(logits.pointer, n, m, n, n, 1);
      return bench.read(logits);
    });
    expect(distance(results[0]!, results[1]!)).toBeLessThan(1e-5);
    expect(results[0]).not.toEqual(results[1]);
  });
});

describe('instantiateKernels', () => {
  it.each(BUILDS)('gives kernels that reach all of the memory (%s)', (build) => {
    const [m, n, k] = [150, 48, 520];
    const shape = { length: 60, heads: 4, kvHeads: 2, d: 32, firstBlock: 0 };
    // The arrays of the second lie around 2 GiB, where an address read as signed would turn negative.
    const results = [65536, 2 ** 31 - 2 ** 18].map((first) => {
      const bench = new KernelBench(build, first);
      const { kernels } = bench;
      const packed = bench.room(n * k);
      kernels.pack(bench.floats(someFloats(1, n * k)), k, packed, k, n, 1);
      const a = bench.floats(someFloats(2, m * k));
      const c = bench.matrix(new Float32Array(m * n), m, n);
      const products = bench.matrix(new Float32Array(k * n), k, n);
      kernels.gemm(a, k, packed, k * 8, c.pointer, n, m, n, k, 0);
      const halves = bench.room((n * k) / 2);
      kernels.packBfloat16(bench.floats(someFloats(1, n * k)), k, halves, k, n, 1);
      const few = bench.matrix(new Float32Array(7 * n), 7, n);
      kernels.gemmBfloat16(a, k, halves, k * 8, few.pointer, n, 7, n, k, 0);
      kernels.gemmTransposed(a, k, c.pointer, n, products.pointer, n, m, k, n);
      kernels.logSoftmax(c.pointer, n, m, n, n, 1);
      const sequence = new AttentionCase(bench, 3, shape);
      sequence.write(0, shape.length);
      const gradients = sequence.backward(0, shape.length, someFloats(4, sequence.inputs.q.length));
      return [bench.read(c), bench.read(few), bench.read(products), sequence.attend(0, shape.length).out, gradients.q, gradients.k, gradients.v].map(
        bitsOf,
      );
    });
    expect(results[1]).toEqual(results[0]);
  });

  it('keeps no state of its own in the memory: instances over one memory do not disturb each other', () => {
    const { module } = loadKernelsModule();
    const memory = new WebAssembly.Memory({ initial: 2, maximum: 4, shared: true });
    const first = instantiateKernels(module, memory);
    const x = new Float32Array(memory.buffer, 65536, 8).fill(1);
    const before = new Uint8Array(memory.buffer, 0, 65536).slice();
    const second = instantiateKernels(module, memory);
    first.logSoftmax(65536, 8, 1, 8, 8, 1);
    second.addTo(65536, 65536, 8);
    expect(x[0]).toBeCloseTo(-2 * Math.log(8), 6);
    expect(new Uint8Array(memory.buffer, 0, 65536)).toEqual(before);
  });
});
