/** A trainer of a tiny model, and its gradients as numbers. */
import type { MemoryRegion } from '../../../src/engine/compute/memory.ts';
import { TrainerPass } from '../../../src/engine/compute/trainer-pass.ts';
import { trainingBytes } from '../../../src/engine/compute/training-layout.ts';
import type { AdapterGradient, SequenceBatch } from '../../../src/engine/compute/training-types.ts';
import { ADAPTED, type AdapterWeights, type ModelConfig, type ModelWeights } from '../../../src/engine/model/model-types.ts';
import { moduleSize, Workbench } from './any-model.ts';
import { hashNumbers } from './hash-numbers.ts';

export interface TinyTrainerOptions {
  readonly config: ModelConfig;
  readonly rank: number;
  readonly scale: number;
  readonly tokens: number;
  readonly checkpointing?: boolean;
  /** Memory that is allocated before anything else and never used. @default 0 */
  readonly reservedBytes?: number;
}

export class TinyTrainer {
  readonly bench = new Workbench();
  readonly model: ModelWeights;
  readonly pass: TrainerPass;
  readonly #options: TinyTrainerOptions;
  readonly #region: MemoryRegion;

  constructor(options: TinyTrainerOptions) {
    this.#options = options;
    const { config, rank, tokens, checkpointing = false, reservedBytes = 0 } = options;
    const { memory, kernels } = this.bench;
    if (reservedBytes > 0) memory.allocate(reservedBytes);
    this.model = this.bench.randomModel(config);
    this.#region = memory.allocate(trainingBytes(config, { tokens, rank, checkpointing }));
    this.pass = new TrainerPass({ kernels, memory: memory.memory, model: this.model, region: this.#region, checkpointing });
  }

  /** What an earlier batch may have left, at its worst. */
  poison(): void {
    this.bench.floats(this.#region.pointer, this.#region.bytes / 4).fill(NaN);
  }

  /** The gradient of sum(dLogProbs · log-prob + dEntropy · entropy), and that sum's parts. */
  gradient(batch: SequenceBatch, adapter: AdapterWeights, d: { readonly dLogProbs: Float32Array; readonly dEntropy: Float32Array | null }) {
    const { config, rank, scale } = this.#options;
    const gradient = this.bench.gradient({ config, rank });
    const { logProbs, entropy } = this.pass.forward(batch, { adapter, retain: true, entropy: d.dEntropy !== null });
    this.pass.backward(gradient, { ...d, scale });
    return { logProbs, entropy, gradient: this.numbers(gradient) };
  }

  /** All tensors, A before B, modules in their order, layers ascending. */
  numbers(gradient: AdapterGradient): Float32Array {
    const { config, rank } = this.#options;
    const tensors = gradient.layers.flatMap((modules) =>
      ADAPTED.flatMap((module) => {
        const { inputs, outputs } = moduleSize(config, module);
        const { a, b } = modules[module]!;
        return [this.bench.floats(a, rank * inputs), this.bench.floats(b, rank * outputs)];
      }),
    );
    return Float32Array.from(tensors.flatMap((tensor) => [...tensor]));
  }
}

export function batchOf(
  sequences: readonly (readonly number[])[],
  options: { readonly firstTarget?: number; readonly temperature?: number } = {},
): SequenceBatch {
  const { firstTarget = 1, temperature = 1 } = options;
  const offsets = [0];
  for (const { length } of sequences) offsets.push(offsets.at(-1)! + length);
  const targets = sequences.flatMap(({ length }, s) =>
    Array.from({ length: Math.max(0, length - firstTarget) }, (_, i) => offsets[s]! + firstTarget + i),
  );
  return { ids: Int32Array.from(sequences.flat()), offsets: Int32Array.from(offsets), targets: Int32Array.from(targets), temperature };
}

export const someTokens = (name: string, count: number, vocabulary: number): number[] =>
  [...hashNumbers(name, count)].map((value) => Math.floor(((value + 1) / 2) * vocabulary));

export const someGradient = (name: string, count: number): Float32Array => Float32Array.from(hashNumbers(name, count));

/** |a - b| / |b| */
export function relativeError(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [error, size] = [0, 0];
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    error += (a[i]! - b[i]!) ** 2;
    size += b[i]! ** 2;
  }
  return Math.sqrt(error / size);
}
