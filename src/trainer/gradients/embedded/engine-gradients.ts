/**
 * The arithmetic of the in-process backend: the embedded engine trains the adapter, this file translates the contract's calls to the engine's. Knows no files, so it
 * also runs in a page. An engine that loses a thread takes the adapter with it: every call then rejects with `lost`.
 */
import { cancelled, untilAborted } from '../../../core/abort.ts';
import { CallQueue } from '../../../core/call-queue.ts';
import { CancelledError, GradientError, type GradientErrorCode, thrownText } from '../../../core/errors.ts';
import { EngineInputError, EngineLostError, MemoryLimitError, NotFiniteError } from '../../../engine/engine-errors.ts';
import type { TokenEngine } from '../../../engine/engine-types.ts';
import type { EngineAdapterState, EngineTrainer } from '../../../engine/training/trainer-types.ts';
import type {
  AdapterDescription,
  BackendCapabilities,
  ForwardOptions,
  ForwardResult,
  GradientComputation,
  OptimStepResult,
  PackedBatch,
} from '../../gradient-backend.ts';
import type { AdamOptions } from '../../../core/adam-options.ts';
import { onOneLine } from '../../../schemas/on-one-line.ts';

const BATCH = /^batch-(\d+)$/;
const NO_COPY = 'There is no state to return to; call hold first';

export interface EngineGradientsParts {
  readonly engine: TokenEngine;
  readonly trainer: EngineTrainer;
  /** Close the engine too. */
  readonly ownsEngine: boolean;
}

export class EngineGradients implements GradientComputation {
  readonly adapter: AdapterDescription;
  protected readonly trainer: EngineTrainer;
  readonly #engine: TokenEngine;
  readonly #ownsEngine: boolean;
  readonly #queue = new CallQueue();
  readonly #capabilities: BackendCapabilities;
  /** The copy that `hold` made. */
  #held: EngineAdapterState | null = null;
  /** The error that made the backend unusable; null before. */
  #lost: GradientError | null = null;
  #closing: Promise<void> | null = null;

  constructor({ engine, trainer, ownsEngine }: EngineGradientsParts) {
    this.#engine = engine;
    this.#ownsEngine = ownsEngine;
    this.trainer = trainer;
    this.adapter = describe(engine, trainer);
    const { maxTokens } = trainer;
    const { description } = engine;
    this.#capabilities = { name: 'embedded', description, device: 'cpu', dtype: 'float32', entropyGradient: true, images: false, maxTokens };
    void engine.lost.then((reason) => (this.#lost ??= gone(thrownText(reason), reason)));
  }

  get capabilities(): BackendCapabilities {
    return this.#capabilities;
  }

  async forward(batch: PackedBatch, options: ForwardOptions): Promise<ForwardResult> {
    if ((batch.images ?? []).length > 0)
      throw new GradientError(
        'The embedded engine reads text only, but the batch holds images. Train with vLLM and PyTorch, or play the environment without images.',
        { code: 'bad_input' },
      );
    const { retain, adapter, entropy = false, signal } = options;
    const running = this.inTurn(async () => {
      // The caller has already got a CancelledError.
      if (signal.aborted) return null;
      const found = await this.trainer.forward(batch, { retain, adapter, entropy });
      if (retain && signal.aborted) await this.trainer.drop(found.batch);
      return found;
    });
    const stopped = () => cancelled(signal, 'Forward pass of the embedded backend was cancelled');
    const found = await untilAborted(running, signal, stopped);
    if (found === null) throw stopped();
    const { batch: number, logProbs, entropy: entropies } = found;
    const batchId = `batch-${number}`;
    return entropies === null ? { batchId, logProbs } : { batchId, logProbs, entropy: entropies };
  }

  backward(batchId: string, { dLogProbs, dEntropy }: { readonly dLogProbs: Float32Array; readonly dEntropy?: Float32Array }): Promise<void> {
    return this.inTurn(() => this.trainer.backward(numberOf(batchId), { dLogProbs, dEntropy: dEntropy ?? null }));
  }

  drop(batchId: string): Promise<void> {
    return this.inTurn(() => this.trainer.drop(numberOf(batchId)));
  }

  zeroGrad(): Promise<void> {
    return this.inTurn(() => this.trainer.zeroGrad());
  }

  optimStep(options: AdamOptions): Promise<OptimStepResult> {
    return this.inTurn(() => this.trainer.step(options));
  }

  hold(): Promise<void> {
    return this.inTurn(async () => void (this.#held = this.trainer.read()));
  }

  restore(): Promise<void> {
    return this.inTurn(async () => {
      if (this.#held === null) throw badInput(NO_COPY);
      await this.trainer.write(this.#held);
      this.#held = null;
    });
  }

  isFinite(): Promise<boolean> {
    return this.inTurn(async () => {
      const { tensors, firstMoments, secondMoments } = this.trainer.read();
      return [...tensors, ...firstMoments, ...secondMoments].every(({ a, b }) => a.every(Number.isFinite) && b.every(Number.isFinite));
    });
  }

  movement(): Promise<number> {
    return this.inTurn(async () => {
      const held = this.#held?.tensors;
      if (held === undefined) throw badInput(NO_COPY);
      const most = (now: Float32Array, then: Float32Array) => now.reduce((found, value, i) => Math.max(found, Math.abs(value - then[i]!)), 0);
      return this.trainer.read().tensors.reduce((found, { a, b }, i) => Math.max(found, most(a, held[i]!.a), most(b, held[i]!.b)), 0);
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#lost ??= gone('the embedded backend was closed');
    // Closing the engine ends any call that still runs.
    if (this.#ownsEngine) await this.#engine.close();
    await this.trainer.close();
  }

  /** Runs calls one at a time, in order. Rejects with GradientError. */
  protected inTurn<T>(call: () => Promise<T>): Promise<T> {
    return this.#queue.run(async () => {
      if (this.#lost !== null) throw this.#lost;
      try {
        return await call();
      } catch (error) {
        throw this.#failure(error);
      }
    });
  }

  /** Classifies a failure. One that came from the end of the engine makes the backend lost too. */
  #failure(error: unknown): GradientError {
    if (this.#lost !== null) return this.#lost;
    const failure = error instanceof CancelledError ? gone(error.message, error) : gradientFailure(error);
    if (failure.code === 'lost') this.#lost = failure;
    return failure;
  }
}

function describe({ config }: TokenEngine, { rank, alpha, modules }: EngineTrainer): AdapterDescription {
  return {
    rank,
    alpha,
    baseModel: config.path,
    modules: modules.map(({ path, inputs, outputs }) => ({ path, inFeatures: inputs, outFeatures: outputs })),
    vocabularySize: config.vocabularySize,
  };
}

function numberOf(batchId: string): number {
  const match = BATCH.exec(batchId);
  if (match) return Number(match[1]);
  throw badInput(`Batch ${batchId} is not retained; it never was, or a backward, a drop, a step or a load has released it`);
}

function badInput(message: string): GradientError {
  return new GradientError(message, { code: 'bad_input' });
}

function gone(message: string, cause?: unknown): GradientError {
  return new GradientError(message, { code: 'lost', cause });
}

/** The engine's errors as those of the contract; the message is one line. */
export function gradientFailure(error: unknown): GradientError {
  if (error instanceof GradientError) return error;
  const text = onOneLine(thrownText(error));
  return new GradientError(text, { code: codeOf(error), cause: error });
}

function codeOf(error: unknown): GradientErrorCode {
  if (error instanceof EngineInputError) return 'bad_input';
  if (error instanceof MemoryLimitError) return 'out_of_memory';
  if (error instanceof NotFiniteError) return 'not_finite';
  return error instanceof EngineLostError ? 'lost' : 'internal';
}
