/**
 * What the main thread asks of a compute thread while it trains, and what comes back: plain data that points into the shared memory. Commands of one thread are
 * carried out in order; every command has one answer. A thread keeps nothing between commands but its pass (what `backward` needs of the last retained `forward`).
 */
import type { AdapterGradient, SequenceBatch } from '../compute/training-types.ts';
import type { MemoryRegion } from '../compute/memory.ts';
import type { AdapterWeights } from '../model/model-types.ts';

export type TrainingCommand = ForwardCommand | BackwardCommand | { readonly kind: 'drop' } | SumCommand | AdamCommand;

export interface ForwardCommand {
  readonly kind: 'forward';
  /** The thread's share of a batch: whole sequences. */
  readonly batch: SequenceBatch;
  readonly adapter: AdapterWeights | null;
  readonly retain: boolean;
  readonly entropy: boolean;
  readonly checkpointing: boolean;
  /** Room for activations; of this thread alone until the next forward. */
  readonly region: MemoryRegion;
}

export interface BackwardCommand {
  readonly kind: 'backward';
  readonly gradient: AdapterGradient;
  /** All numbers of `gradient` side by side. `fresh`: they hold what was, and are set to 0 first. */
  readonly numbers: { readonly pointer: number; readonly count: number; readonly fresh: boolean };
  readonly dLogProbs: Float32Array;
  readonly dEntropy: Float32Array | null;
  /** alpha / rank. */
  readonly scale: number;
}

/** Adds the gradients of all threads up, in this order, into the first; a slice of them. */
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
  /** The gradient is multiplied by it first: clipping. */
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

/** `not_finite`: the model gave NaN or an infinity. `out_of_memory`: the region is too small. `invalid`: a batch that cannot be. `internal`: a fault of ours. */
export interface TrainingFailure {
  readonly kind: 'failed';
  readonly code: 'not_finite' | 'out_of_memory' | 'invalid' | 'internal';
  readonly message: string;
}
