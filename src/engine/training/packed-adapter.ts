/** An adapter as the passes compute with it, packed anew whenever its parameters change. */
import type { MemoryRegion, SharedMemory } from '../compute/memory.ts';
import { Arena, aligned } from '../compute/memory.ts';
import type { Kernels } from '../kernels/kernels.ts';
import type { AdaptedName, AdapterWeights, LoraPair } from '../model/model-types.ts';
import type { ModulePlace, NumbersLayout } from './trainer-numbers.ts';

export interface PackedAdapterOptions {
  readonly memory: SharedMemory;
  readonly kernels: Kernels;
  readonly layout: NumbersLayout;
  readonly layers: number;
  readonly rank: number;
  readonly alpha: number;
  readonly id: number;
}

export class PackedAdapter {
  readonly weights: AdapterWeights;
  readonly #options: PackedAdapterOptions;
  readonly #region: MemoryRegion;
  readonly #pairs: readonly (readonly [ModulePlace, LoraPair])[];
  /** The largest B, multiplied and padded. */
  readonly #scratch: number;

  /** Throws MemoryLimitError. Of no use before `pack`. */
  constructor(options: PackedAdapterOptions) {
    const { memory, layout, layers, rank, id } = options;
    const paddedRank = Math.ceil(rank / 8) * 8;
    const sizes = layout.modules.map(({ inputs, outputs }) => [paddedRank * inputs, Math.ceil(outputs / 8) * 8 * paddedRank] as const);
    const largest = Math.max(...sizes.map(([, b]) => b));
    this.#options = options;
    this.#region = memory.allocate(sizes.reduce((sum, [a, b]) => sum + aligned(a * 4) + aligned(b * 4), aligned(largest * 4)));
    const arena = new Arena(this.#region);
    this.#scratch = arena.take(largest);
    this.#pairs = layout.modules.map((module, i) => {
      const { inputs, outputs } = module;
      const a = { pointer: arena.take(sizes[i]![0]), inputs, outputs: paddedRank };
      const b = { pointer: arena.take(sizes[i]![1]), inputs: paddedRank, outputs };
      return [module, { a, b }] as const;
    });
    const ofLayer = (layer: number) =>
      this.#pairs.filter(([module]) => module.layer === layer).map(([{ name }, pair]): [AdaptedName, LoraPair] => [name, pair]);
    this.weights = { id, paddedRank, layers: Array.from({ length: layers }, (_, layer) => Object.fromEntries(ofLayer(layer))) };
  }

  /** From the vector of parameters at `pointer`. */
  pack(pointer: number): void {
    const { kernels, rank } = this.#options;
    const { paddedRank } = this.weights;
    for (const [{ inputs, outputs, a, b }, pair] of this.#pairs) {
      kernels.pack(pointer + a.offset * 4, inputs, pair.a.pointer, inputs, rank, 1);
      this.#scale(pointer + b.offset * 4, outputs);
      kernels.pack(this.#scratch, paddedRank, pair.b.pointer, paddedRank, outputs, 1);
    }
  }

  free(): void {
    this.#options.memory.free(this.#region);
  }

  #scale(pointer: number, outputs: number): void {
    const { memory, rank, alpha } = this.#options;
    const { paddedRank } = this.weights;
    const factor = alpha / rank;
    const numbers = new Float32Array(memory.memory.buffer, pointer, outputs * rank);
    const scaled = new Float32Array(memory.memory.buffer, this.#scratch, outputs * paddedRank);
    if (rank < paddedRank) scaled.fill(0);
    for (let row = 0; row < outputs; row++) for (let i = 0; i < rank; i++) scaled[row * paddedRank + i] = numbers[row * rank + i]! * factor;
  }
}
