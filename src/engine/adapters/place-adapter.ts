/** Places adapters in the engine's memory, packed for the kernels: A with its rank padded to a multiple of 8, B multiplied by the scale. */
import type { MemoryRegion, SharedMemory } from '../compute/memory.ts';
import { aligned, Arena } from '../compute/memory.ts';
import type { EngineMemory } from '../kernels/web-assembly.ts';
import type { Kernels } from '../kernels/kernels.ts';
import type { AdaptedName, AdapterWeights, LoraPair, ModelConfig, PackedMatrix } from '../model/model-types.ts';
import { type AdaptedModule, adaptedModules } from './adapted-modules.ts';
import type { ReadAdapter } from './read-adapter.ts';

/** Addresses of row-major matrices in memory: A [rank, inputs] and B [outputs, rank], rank unpadded. */
export interface AdapterRows {
  readonly layers: readonly Partial<Readonly<Record<string, { readonly a: number; readonly b: number }>>>[];
}

export interface PlacedAdapter {
  readonly weights: AdapterWeights;
  /** Free it when nothing uses the adapter any more. */
  readonly region: MemoryRegion;
}

/** Allocates an adapter for these modules, filled with zeros, which have no effect. Throws MemoryLimitError. */
export function allocateAdapter(
  modules: readonly AdaptedModule[],
  { memory, id, rank, config }: { readonly memory: SharedMemory; readonly id: number; readonly rank: number; readonly config: ModelConfig },
): PlacedAdapter {
  const paddedRank = Math.ceil(rank / 8) * 8;
  const bytes = modules.reduce((sum, { inputs, outputs }) => sum + aligned(4 * paddedRank * inputs) + aligned(4 * paddedRank * outputs), 0);
  const region = memory.allocate(bytes);
  new Float32Array(memory.memory.buffer, region.pointer, region.bytes / 4).fill(0);
  const arena = new Arena(region);
  const layers = Array.from({ length: config.layers }, (): Partial<Record<AdaptedName, LoraPair>> => ({}));
  for (const { layer, name, inputs, outputs } of modules) {
    layers[layer]![name] = {
      a: { pointer: arena.take(paddedRank * inputs), inputs, outputs: paddedRank },
      b: { pointer: arena.take(paddedRank * outputs), inputs: paddedRank, outputs },
    };
  }
  return { weights: { id, paddedRank, layers }, region };
}

/** Copies an adapter under another id. The copy keeps its numbers when the original changes. Throws MemoryLimitError. */
export function copyAdapter(
  { weights, region }: PlacedAdapter,
  { memory, id }: { readonly memory: SharedMemory; readonly id: number },
): PlacedAdapter {
  const copy = memory.allocate(region.bytes);
  new Uint8Array(memory.memory.buffer).copyWithin(copy.pointer, region.pointer, region.pointer + region.bytes);
  const moved = (matrix: PackedMatrix): PackedMatrix => ({ ...matrix, pointer: matrix.pointer - region.pointer + copy.pointer });
  const layers = weights.layers.map((modules) =>
    Object.fromEntries(Object.entries(modules).map(([name, { a, b }]) => [name, { a: moved(a), b: moved(b) }])),
  );
  return { weights: { ...weights, id, layers }, region: copy };
}

/** Packs an adapter into memory. Throws MemoryLimitError; then nothing stays allocated. */
export function placeAdapter(
  adapter: ReadAdapter,
  { memory, kernels, id, config }: { readonly memory: SharedMemory; readonly kernels: Kernels; readonly id: number; readonly config: ModelConfig },
): PlacedAdapter {
  const { rank, scale, tensors } = adapter;
  const byPath = new Map(tensors.map((tensor) => [tensor.path, tensor]));
  const modules = adaptedModules(config).filter(({ path }) => byPath.has(path));
  const staging = memory.allocate(Math.max(...tensors.map(({ a, b }) => aligned(a.byteLength) + aligned(b.byteLength))));
  try {
    const placed = allocateAdapter(modules, { memory, id, rank, config });
    const staged = new Float32Array(memory.memory.buffer, staging.pointer, staging.bytes / 4);
    for (const { path, layer, name } of modules) {
      const { a, b } = byPath.get(path)!;
      const bOffset = aligned(a.byteLength);
      staged.set(a);
      staged.set(b, bOffset / 4);
      packPair(
        placed.weights.layers[layer]![name]!,
        { a: staging.pointer, b: staging.pointer + bOffset },
        { memory: memory.memory, kernels, rank, scale },
      );
    }
    return placed;
  } finally {
    memory.free(staging);
  }
}

export interface PackOptions {
  readonly memory: EngineMemory;
  readonly kernels: Kernels;
  /** Unpadded rank of the rows. */
  readonly rank: number;
  /** alpha / rank. */
  readonly scale: number;
}

/** Packs the rows of every module of `weights` in place, so that after a training step the adapter computes with the new numbers. */
export function packAdapter(weights: AdapterWeights, rows: AdapterRows, options: PackOptions): void {
  for (const [layer, modules] of weights.layers.entries()) {
    for (const [name, pair] of Object.entries(modules)) packPair(pair, rows.layers[layer]![name]!, options);
  }
}

/** Leaves the padding of `pair` at zero. */
function packPair(pair: LoraPair, rows: { readonly a: number; readonly b: number }, { memory, kernels, rank, scale }: PackOptions): void {
  kernels.pack(rows.a, pair.a.inputs, pair.a.pointer, pair.a.inputs, rank, 1);
  const { inputs: paddedRank, outputs } = pair.b;
  const source = new Float32Array(memory.buffer, rows.b, outputs * rank);
  const packed = new Float32Array(memory.buffer, pair.b.pointer, outputs * paddedRank);
  for (let output = 0; output < outputs; output++) {
    const panel = (output >> 3) * paddedRank * 8 + (output & 7);
    for (let i = 0; i < rank; i++) packed[panel + i * 8] = source[output * rank + i]! * scale;
  }
}
