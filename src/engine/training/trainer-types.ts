/** The engine's training interface: one LoRA adapter with its Adam state, split over the threads. The gradient backend adapts it to the trainer's contract. */
import type { AdamOptions } from '../../core/adam-options.ts';
import type { LoadedAdapter } from '../engine-types.ts';
import type { AdaptedName } from '../model/model-types.ts';
import type { SequenceBatch } from '../compute/training-types.ts';

export interface TrainerOptions {
  /** From 1 to 512. */
  readonly rank: number;
  /** Above 0. The adapter adds (alpha / rank) · B A x. */
  readonly alpha: number;
  /** The linear layers to adapt, in every layer of the model; at least one. */
  readonly targets: readonly AdaptedName[];
  /** Seed of A, which is uniform in ±1 / sqrt(inputs) as in PEFT; B is 0. */
  readonly seed: number;
  /** PEFT directory to start from, with the same rank, alpha and targets; null starts from the base model. */
  readonly initial: string | null;
  /** Keeps only the input of each layer and recomputes the rest in the backward pass. */
  readonly checkpointing: boolean;
  /** Limit for activations of all threads together, in bytes; null is 192 MiB, or what a sequence of 2048 tokens needs. Allocated as batches need it. */
  readonly memoryBytes: number | null;
  readonly signal: AbortSignal;
}

/** One adapted layer, all float32 and row-major. */
export interface AdapterTensors {
  /** `model.layers.0.self_attn.q_proj` */
  readonly path: string;
  readonly inputs: number;
  readonly outputs: number;
  /** [rank, inputs] and [outputs, rank]. */
  readonly a: Float32Array;
  readonly b: Float32Array;
}

export interface EngineAdapterState {
  /** Steps taken since the adapter was created. */
  readonly step: number;
  readonly tensors: readonly AdapterTensors[];
  /** Adam's moments, in the order and shapes of `tensors`. */
  readonly firstMoments: readonly { readonly a: Float32Array; readonly b: Float32Array }[];
  readonly secondMoments: readonly { readonly a: Float32Array; readonly b: Float32Array }[];
}

export interface EngineTrainer {
  readonly rank: number;
  readonly alpha: number;
  readonly modules: readonly { readonly path: string; readonly inputs: number; readonly outputs: number }[];
  /** Tokens in one batch, all threads together, that are sure to fit if its sequences average at least 16 tokens. */
  readonly maxTokens: number;
  /**
   * Batches are split over the threads by whole sequences, always in the same way. Several may be retained; only the engine's last batch, whichever trainer's it is, keeps its
   * activations. The others are recomputed in the backward pass, to the same bits.
   * Rejects with EngineInputError, MemoryLimitError, NotFiniteError or EngineLostError.
   */
  forward(
    batch: SequenceBatch,
    options: { readonly adapter: 'on' | 'off' | 'initial'; readonly retain: boolean; readonly entropy: boolean },
  ): Promise<{ readonly batch: number; readonly logProbs: Float32Array; readonly entropy: Float32Array | null }>;
  backward(batch: number, d: { readonly dLogProbs: Float32Array; readonly dEntropy: Float32Array | null }): Promise<void>;
  drop(batch: number): Promise<void>;
  zeroGrad(): Promise<void>;
  /**
   * Releases the gradient and retained batches. A gradient that is not finite skips the step: gradNorm is then NaN or Infinity. Rejects with EngineInputError for an
   * option that is negative or not finite, a beta of 1 or more, or if there is no gradient.
   */
  step(options: AdamOptions): Promise<{ readonly step: number; readonly gradNorm: number; readonly skipped: boolean }>;
  /** Returns copies. */
  read(): EngineAdapterState;
  /**
   * Offers a copy of the adapter as it is now to requests under this name, as `loadAdapter` does for a directory; later steps do not change the copy.
   * Rejects with EngineInputError if the name is taken, or with MemoryLimitError.
   */
  serve(name: string): Promise<LoadedAdapter>;
  /** Replaces tensors, moments and step; releases the gradient and retained batches. The caller has checked the shapes. */
  write(state: EngineAdapterState): Promise<void>;
  close(): Promise<void>;
}
