/**
 * The in-process gradient backend: the embedded engine trains the adapter, this file translates the contract's calls to the engine's. A sampler may share the engine.
 * An engine that loses a thread takes the adapter with it: every call then rejects with `lost`, and training continues only in a new backend that loads a saved state.
 */
import { arch } from 'node:process';
import { resolve } from 'node:path';
import { cancelled, untilAborted } from '../../../core/abort.ts';
import { CallQueue } from '../../../core/call-queue.ts';
import { CancelledError, ConfigError, GradientError, type GradientErrorCode, thrownText } from '../../../core/errors.ts';
import { writeAdapter } from '../../../engine/adapters/write-adapter.ts';
import { EngineInputError, EngineLostError, MemoryLimitError, NotFiniteError } from '../../../engine/engine-errors.ts';
import type { TokenEngine } from '../../../engine/engine-types.ts';
import type { AdaptedName } from '../../../engine/model/model-types.ts';
import type { EngineTrainer } from '../../../engine/training/trainer-types.ts';
import type {
  AdamOptions,
  AdapterDescription,
  AdapterManifest,
  BackendCapabilities,
  ForwardOptions,
  ForwardResult,
  GradientBackend,
  OptimStepResult,
  PackedBatch,
} from '../gradient-backend.ts';
import { baseFingerprint } from './base-fingerprint.ts';
import { loadState, saveState, type StateOwner } from './state-files.ts';

export interface EmbeddedAdapterOptions {
  readonly rank: number;
  readonly alpha: number;
  /** Last names of linear layers: `q_proj`, ... */
  readonly targets: readonly string[];
  /** Seed of A; B starts at 0. */
  readonly seed: number;
  /** A PEFT directory of the same rank, alpha and targets to start from. */
  readonly initial: string | null;
}

export interface EmbeddedBackendOptions {
  readonly adapter: EmbeddedAdapterOptions;
  /** Keep only each layer's input and recompute the rest in backward: slower, but less memory. @default false */
  readonly gradientCheckpointing?: boolean;
  /** Memory limit for activations, in bytes. @default 192 MiB, or what a sequence of 2048 tokens needs */
  readonly memoryBytes?: number;
  /** Cancels the start; has no effect afterwards. */
  readonly signal: AbortSignal;
}

export interface EmbeddedStartOptions extends EmbeddedBackendOptions {
  /** A Hugging Face directory of a dense Qwen3 model. */
  readonly modelPath: string;
  /** Compute threads. @default the machine's cores, at most 8 */
  readonly threads?: number | null;
}

interface Parts {
  readonly engine: TokenEngine;
  readonly ownsEngine: boolean;
  readonly trainer: EngineTrainer;
  readonly adapter: AdapterDescription;
  readonly owner: StateOwner;
}

const BATCH = /^batch-(\d+)$/;

export class EmbeddedBackend implements GradientBackend {
  readonly adapter: AdapterDescription;
  readonly #parts: Parts;
  readonly #trainer: EngineTrainer;
  readonly #queue = new CallQueue();
  #capabilities: BackendCapabilities;
  /** Why the backend can no longer be used. */
  #lost: GradientError | null = null;
  #closing: Promise<void> | null = null;

  private constructor(parts: Parts) {
    this.#parts = parts;
    this.#trainer = parts.trainer;
    this.adapter = parts.adapter;
    const { description } = parts.engine;
    const { maxTokens } = parts.trainer;
    this.#capabilities = { name: 'embedded', description, device: 'cpu', dtype: 'float32', entropyGradient: true, images: false, maxTokens };
    void parts.engine.lost.then((reason) => (this.#lost ??= gone(thrownText(reason), reason)));
  }

  /** Opens its own engine and closes it with the backend. Rejects with ConfigError if the model or the adapter does not match the options, and with CancelledError. */
  static async start({ modelPath, threads = null, ...options }: EmbeddedStartOptions): Promise<EmbeddedBackend> {
    const { signal } = options;
    const { EmbeddedEngine } = await import('../../../engine/embedded-engine.ts');
    try {
      const engine = await EmbeddedEngine.open({ modelPath, cacheTokens: 0, ...(threads === null ? {} : { threads }), signal });
      return await EmbeddedBackend.on(engine, { ...options, ownsEngine: true });
    } catch (error) {
      throw startFailure(error);
    }
  }

  /** @param ownsEngine close the engine with the backend, or at once if this rejects. @default false. Rejects as `start` does. */
  static async on(engine: TokenEngine, options: EmbeddedBackendOptions & { readonly ownsEngine?: boolean }): Promise<EmbeddedBackend> {
    const { adapter, signal, gradientCheckpointing = false, memoryBytes = null, ownsEngine = false } = options;
    try {
      const base = await baseFingerprint(engine.config.path);
      const initial = adapter.initial === null ? null : resolve(adapter.initial);
      // The trainer refuses unknown names.
      const targets = adapter.targets as readonly AdaptedName[];
      const trainer = await engine.createTrainer({ ...adapter, targets, initial, checkpointing: gradientCheckpointing, memoryBytes, signal });
      return new EmbeddedBackend({ engine, ownsEngine, trainer, adapter: describe(engine, trainer), owner: ownerOf(engine, trainer, base) });
    } catch (error) {
      if (ownsEngine) await engine.close();
      throw startFailure(error);
    }
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
    const running = this.#inTurn(async () => {
      // The caller has already got a CancelledError.
      if (signal.aborted) return null;
      const found = await this.#trainer.forward(batch, { retain, adapter, entropy });
      if (retain && signal.aborted) await this.#trainer.drop(found.batch);
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
    return this.#inTurn(() => this.#trainer.backward(numberOf(batchId), { dLogProbs, dEntropy: dEntropy ?? null }));
  }

  drop(batchId: string): Promise<void> {
    return this.#inTurn(() => this.#trainer.drop(numberOf(batchId)));
  }

  zeroGrad(): Promise<void> {
    return this.#inTurn(() => this.#trainer.zeroGrad());
  }

  optimStep(options: AdamOptions): Promise<OptimStepResult> {
    return this.#inTurn(() => this.#trainer.step(options));
  }

  saveAdapter(directory: string): Promise<AdapterManifest> {
    const { rank, alpha, baseModel } = this.adapter;
    const absolute = resolve(directory);
    return this.#inTurn(async () => {
      const { tensors } = this.#trainer.read();
      return { directory: absolute, rank, alpha, files: await writeAdapter(absolute, { tensors, rank, alpha, baseModel }) };
    });
  }

  saveState(directory: string): Promise<void> {
    return this.#inTurn(() => saveState(resolve(directory), this.#parts.owner, this.#trainer.read()));
  }

  /** Also drops retained batches. If threads, the engine's build or the machine's architecture differ from the saved ones, `capabilities.description` says so from then on. */
  loadState(directory: string): Promise<void> {
    return this.#inTurn(async () => {
      const { state, differences } = await loadState(resolve(directory), this.#parts.owner);
      await this.#trainer.write(state);
      const { description } = this.#parts.engine;
      const remark = differences.length === 0 ? '' : `; not bit for bit as before: ${differences.join(', ')}`;
      this.#capabilities = { ...this.#capabilities, description: `${description}${remark}` };
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#lost ??= gone('the embedded backend was closed');
    const { engine, ownsEngine, trainer } = this.#parts;
    // Closing the engine ends any call that still runs.
    if (ownsEngine) await engine.close();
    await trainer.close();
  }

  #inTurn<T>(call: () => Promise<T>): Promise<T> {
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

function ownerOf(engine: TokenEngine, { rank, alpha, modules }: EngineTrainer, base: string): StateOwner {
  const shapes = modules.map(({ path, inputs, outputs }) => [path, [inputs, outputs]] as const);
  return { base, rank, alpha, modules: Object.fromEntries(shapes), threads: engine.stats().threads, engine: engine.description, architecture: arch };
}

function numberOf(batchId: string): number {
  const match = BATCH.exec(batchId);
  if (match) return Number(match[1]);
  throw badInput(`Batch ${batchId} is not retained; it never was, or a backward, a drop, a step or a load has released it`);
}

function startFailure(error: unknown): unknown {
  const isConfig = error instanceof EngineInputError || error instanceof MemoryLimitError;
  return isConfig ? new ConfigError(gradientFailure(error).message, { cause: error }) : error;
}

function badInput(message: string): GradientError {
  return new GradientError(message, { code: 'bad_input' });
}

function gone(message: string, cause?: unknown): GradientError {
  return new GradientError(message, { code: 'lost', cause });
}

/** The engine's errors as those of the contract; the message is one line. */
function gradientFailure(error: unknown): GradientError {
  if (error instanceof GradientError) return error;
  const text = thrownText(error).replaceAll(/\s*\n\s*/g, ' ');
  return new GradientError(text, { code: codeOf(error), cause: error });
}

function codeOf(error: unknown): GradientErrorCode {
  if (error instanceof EngineInputError) return 'bad_input';
  if (error instanceof MemoryLimitError) return 'out_of_memory';
  if (error instanceof NotFiniteError) return 'not_finite';
  return error instanceof EngineLostError ? 'lost' : 'internal';
}
