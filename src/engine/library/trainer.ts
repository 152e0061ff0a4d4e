/**
 * Trains one LoRA adapter with any loss: `forward` returns log-probs, the program computes the loss and its derivative by each log-prob, `backward` takes the derivatives.
 * Knows nothing of losses, data or schedules.
 */
import { resolve } from 'node:path';
import { writeAdapter } from '../adapters/write-adapter.ts';
import type { TokenEngine } from '../engine-types.ts';
import { ADAPTED, type AdaptedName } from '../model/model-types.ts';
import type { EngineTrainer, TrainerOptions as EngineTrainerOptions } from '../training/trainer-types.ts';
import type { AdamOptions } from '../../core/adam-options.ts';
import { Adapter } from './adapter.ts';
import { checkNames } from './given-options.ts';
import { bySequence, joined, packedSequences, type TokenSequence } from './sequences.ts';

/** Defaults are those of `vf-train`'s `[lora]`. */
export interface TrainerOptions {
  /** From 1 to 512. @default 16 */
  readonly rank?: number;
  /** Above 0. The adapter adds (alpha / rank) · B A x. @default 32 */
  readonly alpha?: number;
  /** Linear layers to adapt, in every layer of the model. @default all seven: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj */
  readonly targets?: readonly AdaptedName[];
  /** An integer, the seed of A; B starts at 0, so that the adapter changes nothing before the first step. @default 0 */
  readonly seed?: number;
  /** PEFT directory to continue from, of the same rank, alpha and targets. @default none */
  readonly initial?: string;
  /** Recomputes activations in the backward pass: slower by a third, with a fraction of the memory. @default false */
  readonly checkpointing?: boolean;
  /** Limit for the activations of all threads together, in bytes. @default 192 MiB, or what a sequence of 2,048 tokens needs */
  readonly memoryBytes?: number;
  /** Cancels the creation. @default none */
  readonly signal?: AbortSignal;
}

export interface ForwardOptions {
  /** Logits are divided by it before the softmax. Above 0. @default 1 */
  readonly temperature?: number;
  /** Also computes the entropy of each target's distribution. @default false */
  readonly entropy?: boolean;
}

/** Results of a forward pass over B sequences. */
export interface ForwardResult {
  /** Natural logarithm of the probability of each target, per sequence. [B][M] */
  readonly logProbs: readonly Float32Array[];
  /** In nats. [B][M]; null unless asked for. */
  readonly entropies: readonly Float32Array[] | null;
  /** The engine's number of the batch. Internal. */
  readonly batch: number;
}

/** Defaults are those of `vf-train`'s `[optimizer]`. */
export interface AdamStep {
  /** At least 0. About 1e-4 for LoRA on a language model; 1e-3 and more for the bundled model. */
  readonly learningRate: number;
  /** Decay of the first moment, in [0, 1). @default 0.9 */
  readonly beta1?: number;
  /** Decay of the second moment, in [0, 1). @default 0.95 */
  readonly beta2?: number;
  /** Added to the denominator. @default 1e-8 */
  readonly epsilon?: number;
  /** Decoupled, as AdamW's. @default 0 */
  readonly weightDecay?: number;
  /** A longer gradient is scaled down to this norm; null never clips. @default 1 */
  readonly maxGradNorm?: number | null;
}

const ADAM = { beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, maxGradNorm: 1 } as const satisfies Omit<AdamOptions, 'learningRate'>;
const LORA = { rank: 16, alpha: 32, targets: ADAPTED, seed: 0, initial: null, checkpointing: false, memoryBytes: null } as const;

/** Fills in the defaults. Throws EngineInputError for an unknown name. */
export function trainerOptions({ signal = new AbortController().signal, ...options }: TrainerOptions): EngineTrainerOptions {
  checkNames('createTrainer', options, Object.keys(LORA));
  const initial = options.initial === undefined ? null : resolve(options.initial);
  return { ...LORA, ...options, initial, signal };
}

interface TrainerParts {
  readonly engine: TokenEngine;
  readonly trainer: EngineTrainer;
  /** A new name for an adapter. */
  readonly nextName: () => string;
}

export class Trainer implements AsyncDisposable {
  readonly rank: number;
  readonly alpha: number;
  /** Tokens in one batch that are sure to fit, if its sequences average at least 16 tokens. Divide larger batches, and call `optimStep` after the last part. */
  readonly maxTokens: number;
  readonly #parts: TrainerParts;
  /** Adapters that this trainer has published, oldest first. */
  #published: readonly Adapter[] = [];
  #version = 0;

  /** Internal: `Engine.createTrainer` creates trainers. */
  constructor(parts: TrainerParts) {
    this.#parts = parts;
    this.rank = parts.trainer.rank;
    this.alpha = parts.trainer.alpha;
    this.maxTokens = parts.trainer.maxTokens;
  }

  /** Number of optimiser steps that changed the adapter. */
  get version(): number {
    return this.#version;
  }

  /**
   * Log-probs of the targets with the adapter as it is now, bit for bit those that the sampler reports. Keeps what `backward` needs until `backward`, `zeroGrad` or
   * `optimStep`. Rejects with EngineInputError for invalid sequences, MemoryLimitError for too many tokens, NotFiniteError (the model computed a NaN) or EngineLostError.
   *
   * @example
   * const batch = await trainer.forward([{ ids: [...prompt, ...answer], targets: answer.map((_, i) => prompt.length + i) }]);
   */
  async forward(sequences: readonly TokenSequence[], options: ForwardOptions = {}): Promise<ForwardResult> {
    return await this.#forward(sequences, { ...options, adapter: 'on', retain: true });
  }

  /**
   * As `forward`, for numbers without a gradient. `adapter`: `on` is the adapter as it is now, `initial` the one of the start (`initial`, or the base), `off` the base.
   *
   * @example
   * const reference = await trainer.logProbs(sequences, { adapter: 'off' });
   */
  async logProbs(
    sequences: readonly TokenSequence[],
    options: ForwardOptions & { readonly adapter?: 'on' | 'off' | 'initial' } = {},
  ): Promise<ForwardResult> {
    return await this.#forward(sequences, { ...options, adapter: options.adapter ?? 'on', retain: false });
  }

  /**
   * Adds the gradient of a loss to the sum that `optimStep` takes, given the derivatives of the loss by the log-probs (and entropies) of a batch. A batch is used once.
   * Rejects with EngineInputError for derivatives that are not finite or do not fit the batch, or for a batch that has been used.
   *
   * @example
   * // The mean negative log-likelihood: -1 / M for each of M targets.
   * await trainer.backward(batch, { dLogProbs: batch.logProbs.map((one) => one.map(() => -1 / count)) });
   */
  async backward(
    result: ForwardResult,
    gradient: { readonly dLogProbs: readonly ArrayLike<number>[]; readonly dEntropies?: readonly ArrayLike<number>[] | null },
  ): Promise<void> {
    checkNames('backward', gradient, ['dLogProbs', 'dEntropies']);
    const lengths = result.logProbs.map(({ length }) => length);
    const { dLogProbs, dEntropies = null } = gradient;
    await this.#parts.trainer.backward(result.batch, {
      dLogProbs: joined('dLogProbs', dLogProbs, lengths),
      dEntropy: dEntropies && joined('dEntropies', dEntropies, lengths),
    });
  }

  /**
   * Takes one step of Adam on the gradient so far, then clears it. A gradient with a NaN or an infinity is dropped: `skipped` is then true. `gradNorm` is the norm before
   * clipping. Rejects with EngineInputError if there is no gradient or an option is out of range.
   *
   * @example
   * const { gradNorm } = await trainer.optimStep({ learningRate: 1e-3 });
   */
  async optimStep(options: AdamStep): Promise<{ readonly version: number; readonly gradNorm: number; readonly skipped: boolean }> {
    checkNames('optimStep', options, ['learningRate', ...Object.keys(ADAM)]);
    const { step, gradNorm, skipped } = await this.#parts.trainer.step({ ...ADAM, ...options });
    this.#version = step;
    return { version: step, gradNorm, skipped };
  }

  /** Drops the gradient so far. */
  zeroGrad(): Promise<void> {
    return this.#parts.trainer.zeroGrad();
  }

  /**
   * Gives the adapter as it is now to the sampler, in memory: one copy, which later steps do not change. Unloads this trainer's older adapters beyond the newest `keep`;
   * generations in flight finish with theirs. Rejects with MemoryLimitError if another copy does not fit.
   *
   * @param options.keep how many of this trainer's adapters stay loaded, from 1. @default 1
   * @example
   * const adapter = await trainer.publish();
   * const { text } = await engine.generate({ prompt, adapter });
   */
  async publish(options: { readonly keep?: number } = {}): Promise<Adapter> {
    checkNames('publish', options, ['keep']);
    const { engine, trainer, nextName } = this.#parts;
    const served = await trainer.serve(nextName());
    // Read afterwards, because steps before this call may not have ended when it was made.
    const adapter = new Adapter(engine, served, this.#version);
    const all = [...this.#published.filter(({ isLoaded }) => isLoaded), adapter];
    this.#published = all.slice(-Math.max(1, options.keep ?? 1));
    for (const old of all.slice(0, all.length - this.#published.length)) old.unload();
    return adapter;
  }

  /** Writes the adapter as it is now as a PEFT directory, which transformers, vLLM and `loadAdapter` read. The directory must not exist. Rejects with EngineInputError or VfError. */
  async save(directory: string): Promise<void> {
    const { tensors } = this.#parts.trainer.read();
    await writeAdapter(directory, { tensors, rank: this.rank, alpha: this.alpha, baseModel: this.#parts.engine.config.path });
  }

  /** Frees the trainer's memory. Adapters that it published stay. */
  close(): Promise<void> {
    return this.#parts.trainer.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #forward(
    sequences: readonly TokenSequence[],
    options: ForwardOptions & { readonly adapter: 'on' | 'off' | 'initial'; readonly retain: boolean },
  ): Promise<ForwardResult> {
    const { temperature = 1, entropy = false, adapter, retain, ...rest } = options;
    checkNames('forward', rest, []);
    const packed = packedSequences(sequences, temperature);
    const { batch, logProbs, entropy: entropies } = await this.#parts.trainer.forward(packed, { adapter, retain, entropy });
    const lengths = sequences.map(({ ids, targets }) => targets?.length ?? ids.length - 1);
    return { batch, logProbs: bySequence(logProbs, lengths), entropies: entropies && bySequence(entropies, lengths) };
  }
}
