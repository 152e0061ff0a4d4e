/** Training as the engine offers it: one LoRA adapter with its Adam state, split over the threads. The gradient backend turns it into the trainer's contract. */
import type { AdaptedName } from '../model/model-types.ts';
import type { SequenceBatch } from '../compute/training-types.ts';

export interface TrainerOptions {
  /** From 1 to 512. */
  readonly rank: number;
  /** Above 0: the adapter adds (alpha / rank) · B A x. */
  readonly alpha: number;
  /** The linear layers that get a pair, in every layer of the model; at least one. */
  readonly targets: readonly AdaptedName[];
  /** Of A, uniform in ±1 / sqrt(inputs) as PEFT's; B is 0. */
  readonly seed: number;
  /** A PEFT directory of the same rank, alpha and targets to start from. */
  readonly initial: string | null;
  /** Keep the input of each layer only and compute the rest again on the way back. */
  readonly checkpointing: boolean;
  /** Most memory for activations, all threads together, in bytes; null for as much as usual. It is taken as batches need it. */
  readonly memoryBytes: number | null;
  readonly signal: AbortSignal;
}

export interface AdamOptions {
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  /** Decoupled, as AdamW's. */
  readonly weightDecay: number;
  /** The gradient is scaled down to this norm where it is longer; null never. */
  readonly maxGradNorm: number | null;
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
  /** Steps taken since the adapter was made. */
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
  /** Tokens of one batch, all threads together, that certainly fit, where its sequences have 16 tokens or more on the average. */
  readonly maxTokens: number;
  /**
   * Batches are split over the threads by whole sequences, always in the same way. Several may be retained: what no longer fits is computed again on the way back.
   * Rejects with EngineInputError, MemoryLimitError, NotFiniteError or EngineLostError.
   */
  forward(
    batch: SequenceBatch,
    options: { readonly adapter: 'on' | 'off' | 'initial'; readonly retain: boolean; readonly entropy: boolean },
  ): Promise<{ readonly batch: number; readonly logProbs: Float32Array; readonly entropy: Float32Array | null }>;
  backward(batch: number, d: { readonly dLogProbs: Float32Array; readonly dEntropy: Float32Array | null }): Promise<void>;
  drop(batch: number): Promise<void>;
  zeroGrad(): Promise<void>;
  /** gradNorm NaN or Infinity and `skipped` where the gradient was not finite. Forgets gradient and retained batches. */
  step(options: AdamOptions): Promise<{ readonly step: number; readonly gradNorm: number; readonly skipped: boolean }>;
  /** Copies. */
  read(): EngineAdapterState;
  /** Replaces tensors, moments and step; forgets gradient and retained batches. Shapes have been checked. */
  write(state: EngineAdapterState): Promise<void>;
  close(): Promise<void>;
}
