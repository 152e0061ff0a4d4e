import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { adaptedModules } from '../../../src/engine/adapters/adapted-modules.ts';
import { allocateAdapter, packAdapter, placeAdapter } from '../../../src/engine/adapters/place-adapter.ts';
import type { ReadAdapter } from '../../../src/engine/adapters/read-adapter.ts';
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import { MemoryLimitError } from '../../../src/engine/engine-errors.ts';
import { instantiateKernels } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';
import { ADAPTED, type AdaptedName, type LoraPair, type PackedMatrix } from '../../../src/engine/model/model-types.ts';
import { Random } from '../../../src/core/random.ts';
import { readModelConfig } from '../from-directory.ts';

const config = await readModelConfig(join(import.meta.dirname, '../../models/nano-base'));
const { module } = loadKernelsModule();

/** Memory that was used before: nothing in it is zero by itself. */
function usedMemory() {
  const memory = new SharedMemory();
  const region = memory.allocate(2 ** 23);
  new Float32Array(memory.memory.buffer, region.pointer, region.bytes / 4).fill(NaN);
  memory.free(region);
  return { memory, kernels: instantiateKernels(module, memory.memory) };
}

function randomAdapter({
  rank,
  scale,
  targets = ADAPTED,
  seed = 1,
}: {
  rank: number;
  scale: number;
  targets?: readonly AdaptedName[];
  seed?: number;
}): ReadAdapter {
  const random = Random.fromSeed(seed);
  const numbers = (count: number) => Float32Array.from({ length: count }, () => random.float() - 0.5);
  const tensors = adaptedModules(config, targets).map(({ path, inputs, outputs }) => ({
    path,
    inputs,
    outputs,
    a: numbers(rank * inputs),
    b: numbers(outputs * rank),
  }));
  return { directory: '', rank, alpha: scale * rank, scale, tensors };
}

type Placing = ReturnType<typeof usedMemory>;

function unpacked({ memory, kernels }: Placing, { pointer, inputs, outputs }: PackedMatrix): Float32Array[] {
  const out = memory.allocate(outputs * inputs * 4);
  kernels.unpackRows(pointer, inputs, 0, outputs, out.pointer, inputs);
  const rows = Array.from({ length: outputs }, (_, row) => new Float32Array(memory.memory.buffer, out.pointer + row * inputs * 4, inputs).slice());
  memory.free(out);
  return rows;
}

/** The rows that a pair should hold. */
function expected(adapter: ReadAdapter, path: string): { a: Float32Array[]; b: Float32Array[] } {
  const { a, b, inputs, outputs } = adapter.tensors.find((tensor) => tensor.path === path)!;
  const { rank, scale } = adapter;
  const padded = Math.ceil(rank / 8) * 8;
  return {
    a: Array.from({ length: padded }, (_, row) => (row < rank ? a.slice(row * inputs, (row + 1) * inputs) : new Float32Array(inputs))),
    b: Array.from({ length: outputs }, (_, row) => {
      const values = new Float32Array(padded);
      values.set(b.slice(row * rank, (row + 1) * rank).map((value) => value * scale));
      return values;
    }),
  };
}

describe('placeAdapter', () => {
  it('pads the rank with zeros and multiplies B by the scale, whatever rank and targets', () => {
    const wish = fc.record({
      rank: fc.integer({ min: 1, max: 17 }),
      scale: fc.constantFrom(0.3, 1, 2),
      targets: fc.subarray<AdaptedName>([...ADAPTED], { minLength: 1 }),
    });
    const placing = usedMemory();
    fc.assert(
      fc.property(wish, (w) => {
        const adapter = randomAdapter(w);
        const { weights, region } = placeAdapter(adapter, { ...placing, id: 7, config });
        expect([weights.id, weights.paddedRank, weights.layers.length]).toEqual([7, Math.ceil(w.rank / 8) * 8, 4]);
        for (const layer of weights.layers) expect(Object.keys(layer).toSorted()).toEqual(w.targets.toSorted());
        const last = adaptedModules(config, w.targets).at(-1)!;
        const pair = weights.layers[last.layer]![last.name]!;
        expect({ a: unpacked(placing, pair.a), b: unpacked(placing, pair.b) }).toEqual(expected(adapter, last.path));
        placing.memory.free(region);
        expect(placing.memory.used).toBe(0);
      }),
      { numRuns: 25 },
    );
  });

  it('leaves nothing allocated where there is no room', () => {
    const memory = new SharedMemory(new WebAssembly.Memory({ initial: 2, maximum: 8, shared: true }));
    const kernels = instantiateKernels(module, memory.memory);
    expect(() => placeAdapter(randomAdapter({ rank: 16, scale: 1 }), { memory, kernels, id: 1, config })).toThrow(MemoryLimitError);
    expect(memory.used).toBe(0);
  });
});

describe('packAdapter', () => {
  it('turns a placed adapter into what placing the new numbers would give, to the bit', () => {
    const placing = usedMemory();
    const [before, after] = [1, 2].map((seed) => randomAdapter({ rank: 5, scale: 1.7, seed })) as [ReadAdapter, ReadAdapter];
    const modules = adaptedModules(config);
    const trained = allocateAdapter(modules, { memory: placing.memory, id: 1, rank: 5, config });
    const layers = trained.weights.layers.map((): Record<string, { a: number; b: number }> => ({}));
    const [rowsOf, views] = [{ layers }, new Map<string, readonly [Float32Array, Float32Array]>()];
    for (const { layer, name, path, inputs, outputs } of modules) {
      const { pointer } = placing.memory.allocate(5 * (inputs + outputs) * 4);
      const b = pointer + 5 * inputs * 4;
      layers[layer]![name] = { a: pointer, b };
      views.set(path, [
        new Float32Array(placing.memory.memory.buffer, pointer, 5 * inputs),
        new Float32Array(placing.memory.memory.buffer, b, 5 * outputs),
      ]);
    }
    for (const adapter of [before, after]) {
      for (const { path, a, b } of adapter.tensors) {
        views.get(path)![0].set(a);
        views.get(path)![1].set(b);
      }
      packAdapter(trained.weights, rowsOf, { memory: placing.memory.memory, kernels: placing.kernels, rank: 5, scale: 1.7 });
    }
    const placed = placeAdapter(after, { ...placing, id: 2, config });
    const rows = (pair: LoraPair) => ({ a: unpacked(placing, pair.a), b: unpacked(placing, pair.b) });
    for (const { layer, name } of modules) {
      expect(rows(trained.weights.layers[layer]![name]!)).toEqual(rows(placed.weights.layers[layer]![name]!));
    }
  });
});
