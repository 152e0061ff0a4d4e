/**
 * The in-process gradient backend: the arithmetic of `EngineGradients`, and the adapter and its state in files. A sampler and other backends may share the engine. After the
 * engine is lost, training continues only in a new backend that loads a saved state.
 */
import { arch } from 'node:process';
import { resolve } from 'node:path';
import { ConfigError } from '../../../core/errors.ts';
import { writeAdapter } from '../../../engine/adapters/write-adapter.ts';
import { EngineInputError, MemoryLimitError } from '../../../engine/engine-errors.ts';
import type { TokenEngine } from '../../../engine/engine-types.ts';
import type { AdaptedName } from '../../../engine/model/model-types.ts';
import type { EngineTrainer } from '../../../engine/training/trainer-types.ts';
import type { AdapterFiles, BackendCapabilities, GradientBackend } from '../../gradient-backend.ts';
import type { AdapterOptions } from '../adapter-options.ts';
import { baseFingerprint } from './base-fingerprint.ts';
import { EngineGradients, type EngineGradientsParts, gradientFailure } from './engine-gradients.ts';
import { loadState, saveState, type StateOwner } from './state-files.ts';

export interface EmbeddedBackendOptions {
  readonly adapter: AdapterOptions;
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

export class EmbeddedBackend extends EngineGradients implements GradientBackend {
  readonly #owner: StateOwner;
  /** The remark of a loaded state about its numbers. */
  #remark = '';

  private constructor({ owner, ...parts }: EngineGradientsParts & { readonly owner: StateOwner }) {
    super(parts);
    this.#owner = owner;
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
      return new EmbeddedBackend({ engine, ownsEngine, trainer, owner: ownerOf(engine, trainer, base) });
    } catch (error) {
      if (ownsEngine) await engine.close();
      throw startFailure(error);
    }
  }

  override get capabilities(): BackendCapabilities {
    const { description, ...rest } = super.capabilities;
    return { ...rest, description: `${description}${this.#remark}` };
  }

  saveAdapter(directory: string): Promise<AdapterFiles> {
    const { rank, alpha, baseModel } = this.adapter;
    const absolute = resolve(directory);
    return this.inTurn(async () => {
      const { tensors } = this.trainer.read();
      return { kind: 'files', directory: absolute, rank, alpha, files: await writeAdapter(absolute, { tensors, rank, alpha, baseModel }) };
    });
  }

  saveState(directory: string): Promise<void> {
    return this.inTurn(() => saveState(resolve(directory), this.#owner, this.trainer.read()));
  }

  /** Also drops retained batches. If threads, the engine's build or the machine's architecture differ from the saved ones, `capabilities.description` says so from then on. */
  loadState(directory: string): Promise<void> {
    return this.inTurn(async () => {
      const { state, differences } = await loadState(resolve(directory), this.#owner);
      await this.trainer.write(state);
      this.#remark = differences.length === 0 ? '' : `; not bit for bit as before: ${differences.join(', ')}`;
    });
  }
}

function ownerOf(engine: TokenEngine, { rank, alpha, modules }: EngineTrainer, base: string): StateOwner {
  const shapes = modules.map(({ path, inputs, outputs }) => [path, [inputs, outputs]] as const);
  return { base, rank, alpha, modules: Object.fromEntries(shapes), threads: engine.stats().threads, engine: engine.description, architecture: arch };
}

function startFailure(error: unknown): unknown {
  const isConfig = error instanceof EngineInputError || error instanceof MemoryLimitError;
  return isConfig ? new ConfigError(gradientFailure(error).message, { cause: error }) : error;
}
