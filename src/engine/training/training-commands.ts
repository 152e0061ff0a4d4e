/**
 * Training commands from the main thread to a compute thread, and their answers: plain data that points into the shared memory. A thread carries out its commands in
 * order and answers each once. Between commands it keeps only its pass, which holds what `backward` needs of the last retained `forward`.
 */
import type { AdapterGradient, SequenceBatch } from '../compute/training-types.ts';
import type { MemoryRegion } from '../compute/memory.ts';
import type { AdapterWeights } from '../model/model-types.ts';

export type TrainingCommand = ForwardCommand | BackwardCommand | SumCommand | AdamCommand;

export interface ForwardCommand {
  readonly kind: 'forward';
  /** The thread's share of a batch: whole sequences. */
  readonly batch: SequenceBatch;
  readonly adapter: AdapterWeights | null;
  readonly retain: boolean;
  readonly entropy: boolean;
  readonly checkpointing: boolean;
  /** Memory for activations, exclusive to this thread until the next forward. */
  readonly region: MemoryRegion;
}

export interface BackwardCommand {
  readonly kind: 'backward';
  readonly gradient: AdapterGradient;
  /** The vector that holds all numbers of `gradient`. `fresh`: it holds old values and is set to 0 first. */
  readonly numbers: { readonly pointer: number; readonly count: number; readonly fresh: boolean };
  readonly dLogProbs: Float32Array;
  readonly dEntropy: Float32Array | null;
  /** alpha / rank. */
  readonly scale: number;
}

/** Sums a slice of the threads' gradients, in this order, into the first. */
export interface SumCommand {
  readonly kind: 'sum';
  readonly pointers: readonly number[];
  /** A multiple of 4. */
  readonly count: number;
}

/** One step of Adam on a slice of the parameters. */
export interface AdamCommand {
  readonly kind: 'adam';
  readonly parameters: number;
  readonly gradient: number;
  readonly firstMoments: number;
  readonly secondMoments: number;
  /** A multiple of 4. */
  readonly count: number;
  /** The gradient is multiplied by this first, for clipping. */
  readonly scale: number;
  readonly learningRate: number;
  readonly beta1: number;
  readonly beta2: number;
  readonly epsilon: number;
  readonly weightDecay: number;
  /** 1 - beta1^t and 1 - beta2^t. */
  readonly correction1: number;
  readonly correction2: number;
}

export type TrainingAnswer =
  | { readonly kind: 'log-probs'; readonly logProbs: Float32Array; readonly entropy: Float32Array | null }
  | { readonly kind: 'sum-of-squares'; readonly value: number }
  | { readonly kind: 'done' }
  | TrainingFailure;

/** `not_finite`: the model computed a NaN or an infinity. `out_of_memory`: the region is too small. `invalid`: an invalid batch. `internal`: a bug of ours. */
export interface TrainingFailure {
  readonly kind: 'failed';
  readonly code: 'not_finite' | 'out_of_memory' | 'invalid' | 'internal';
  readonly message: string;
}
