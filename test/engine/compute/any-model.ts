/** Models and adapters with weights out of hashes, in an engine's memory of their own. */
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import type { AdapterGradient } from '../../../src/engine/compute/training-types.ts';
import type { Kernels } from '../../../src/engine/kernels/kernels.ts';
import { instantiateKernels, type KernelsBuild } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';
import { ALL_FLOAT32, layOutModel } from '../../../src/engine/model/model-layout.ts';
import {
  ADAPTED,
  type AdaptedName,
  type AdapterWeights,
  type LoraPair,
  type ModelConfig,
  type ModelWeights,
  type PackedMatrix,
} from '../../../src/engine/model/model-types.ts';
import { fillRotations } from '../../../src/engine/model/rotation-table.ts';
import { hashNumbers } from './hash-numbers.ts';

export class Workbench {
  readonly memory = new SharedMemory();
  readonly kernels: Kernels;
  #adapters = 0;

  constructor(build?: KernelsBuild) {
    this.kernels = instantiateKernels(loadKernelsModule(build).module, this.memory.memory);
  }

  floats(pointer: number, count: number): Float32Array {
    return new Float32Array(this.memory.memory.buffer, pointer, count);
  }

  /** Writes a matrix `[outputs, inputs]`, packed. */
  pack(values: Float64Array, inputs: number, outputs: number, to: number): void {
    const staged = this.memory.allocate(values.length * 4);
    this.floats(staged.pointer, values.length).set(values);
    this.kernels.pack(staged.pointer, inputs, to, inputs, outputs, 1);
    this.memory.free(staged);
  }

  /** @param headNorm what the weights of the norms of queries and keys are multiplied by. @default 1 */
  randomModel(config: ModelConfig, { headNorm = 1 }: { readonly headNorm?: number } = {}): ModelWeights {
    const { weights, tensors } = layOutModel(config, ALL_FLOAT32, (count) => this.memory.allocate(count * 4).pointer);
    for (const { name, shape, pointer } of tensors) {
      const [outputs, inputs] = shape;
      const values = hashNumbers(name, outputs! * (inputs ?? 1));
      const times = /[qk]_norm/.test(name) ? headNorm : 1;
      const factor = inputs === undefined ? 0.3 * times : name.includes('embed') ? 1 : Math.sqrt(3 / inputs);
      const scaled = values.map((value) => value * factor + (inputs === undefined ? times : 0));
      if (inputs === undefined) this.floats(pointer, outputs!).set(scaled);
      else this.pack(scaled, inputs, outputs!, pointer);
    }
    fillRotations(this.floats(weights.rotations, config.maxPositions * config.headDim), config);
    return weights;
  }

  /** Modules named in `without` have no pair. */
  randomAdapter({ config, rank, alpha, name = '', without = [] }: AnyAdapter): AdapterWeights {
    return this.adapter({ config, rank, alpha, without, tensor: (...place) => randomLora(config, rank, place, name) });
  }

  /** `tensor` gives A [rank, inputs] and B [outputs, rank] of each module. */
  adapter({ config, rank, alpha, without = [], tensor }: Omit<AnyAdapter, 'name'> & { readonly tensor: LoraTensor }): AdapterWeights {
    const paddedRank = Math.ceil(rank / 8) * 8;
    const pair = (layer: number, module: AdaptedName): LoraPair => {
      const { inputs, outputs } = moduleSize(config, module);
      const padded = new Float64Array(outputs * paddedRank);
      for (const [i, value] of tensor(layer, module, 'B').entries()) padded[Math.floor(i / rank) * paddedRank + (i % rank)] = (value * alpha) / rank;
      return { a: this.#matrix(tensor(layer, module, 'A'), inputs, rank, paddedRank), b: this.#matrix(padded, paddedRank, outputs, outputs) };
    };
    const modules = ADAPTED.filter((module) => !without.includes(module));
    const layers = Array.from({ length: config.layers }, (_, layer) => Object.fromEntries(modules.map((module) => [module, pair(layer, module)])));
    return { id: ++this.#adapters, paddedRank, layers };
  }

  gradient({ config, rank }: { readonly config: ModelConfig; readonly rank: number }): AdapterGradient {
    const take = (count: number) => {
      const { pointer } = this.memory.allocate(count * 4);
      this.floats(pointer, count).fill(0);
      return pointer;
    };
    const layers = Array.from({ length: config.layers }, () =>
      Object.fromEntries(
        ADAPTED.map((module) => {
          const { inputs, outputs } = moduleSize(config, module);
          return [module, { a: take(rank * inputs), b: take(outputs * rank) }] as const;
        }),
      ),
    );
    return { rank, layers };
  }

  #matrix(values: Float64Array, inputs: number, outputs: number, paddedOutputs: number): PackedMatrix {
    const { pointer } = this.memory.allocate(Math.ceil(paddedOutputs / 8) * 8 * inputs * 4);
    this.pack(values, inputs, outputs, pointer);
    return { pointer, inputs, outputs: paddedOutputs };
  }
}

export type LoraTensor = (layer: number, module: AdaptedName, half: 'A' | 'B') => Float64Array;

export interface AnyAdapter {
  readonly config: ModelConfig;
  readonly rank: number;
  readonly alpha: number;
  /** Another name, another adapter. @default '' */
  readonly name?: string;
  readonly without?: readonly AdaptedName[];
}

export function moduleSize(config: ModelConfig, module: AdaptedName): { readonly inputs: number; readonly outputs: number } {
  const { hiddenSize: hidden, intermediateSize: intermediate, headDim } = config;
  const [queries, keys] = [config.heads * headDim, config.kvHeads * headDim];
  const sizes: Readonly<Record<AdaptedName, readonly [number, number]>> = {
    q_proj: [hidden, queries],
    k_proj: [hidden, keys],
    v_proj: [hidden, keys],
    o_proj: [queries, hidden],
    gate_proj: [hidden, intermediate],
    up_proj: [hidden, intermediate],
    down_proj: [intermediate, hidden],
  };
  const [inputs, outputs] = sizes[module];
  return { inputs, outputs };
}

export const tensorName = (layer: number, module: AdaptedName, half: 'A' | 'B'): string =>
  `base_model.model.model.layers.${layer}.${/^[qkvo]_/.test(module) ? 'self_attn' : 'mlp'}.${module}.lora_${half}.weight`;

/** As an adapter's file would hold it: float32. */
export function randomLora(config: ModelConfig, rank: number, [layer, module, half]: Parameters<LoraTensor>, name = ''): Float64Array {
  const { inputs, outputs } = moduleSize(config, module);
  const [count, scale] = half === 'A' ? [rank * inputs, 0.2] : [outputs * rank, 0.05];
  return hashNumbers(name + tensorName(layer, module, half), count).map((value) => Math.fround(value * scale));
}

/** A model of a few thousand weights whose sizes fit nothing but the rules. */
export const TINY: ModelConfig = {
  vocabularySize: 101,
  hiddenSize: 40,
  intermediateSize: 72,
  layers: 2,
  heads: 6,
  kvHeads: 2,
  headDim: 16,
  maxPositions: 128,
  rmsNormEpsilon: 1e-6,
  ropeTheta: 1_000_000,
  tiedEmbeddings: false,
  endTokenIds: [0],
  path: 'tiny',
};
