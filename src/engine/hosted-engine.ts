/**
 * The embedded engine over any host: one model in one shared memory, and threads that sample and train it. This file only passes each call to the part that handles
 * it; `open-parts.ts` creates the parts.
 */
import { CancelledError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { checkRequest } from './check-request.ts';
import { EngineBusyError, EngineInputError, NotFiniteError } from './engine-errors.ts';
import type { EngineStats, GenerateRequest, Generation, LoadedAdapter, TokenEngine } from './engine-types.ts';
import type { ModelConfig } from './model/model-types.ts';
import { ALL_FLOAT32, layOutModel } from './model/model-layout.ts';
import type { EngineParts } from './open-parts.ts';
import { AllowedTokens } from './sampler/allowed-tokens.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';
import { ActivationRoom } from './training/activation-room.ts';
import { ShardedTrainer } from './training/sharded-trainer.ts';
import type { EngineTrainer, TrainerOptions } from './training/trainer-types.ts';
import { countText } from '../core/count-text.ts';

export class HostedEngine implements TokenEngine {
  readonly config: ModelConfig;
  readonly tokenizer: ModelTokenizer;
  readonly maxModelLen: number;
  readonly description: string;
  readonly lost: Promise<Error>;
  readonly #parts: EngineParts;
  /** Seeds for requests without one, drawn in the order of arrival, whichever thread a request goes to. */
  readonly #seeds: Random;
  readonly #allowed = new AllowedTokens();
  readonly #finished = { stop: 0, length: 0, abort: 0, error: 0 };
  readonly #room: ActivationRoom;

  /** @param parts as `openParts` returned them */
  constructor(parts: EngineParts) {
    const { model, tokenizer, pool, build } = parts;
    this.#parts = parts;
    this.config = model.config;
    this.tokenizer = tokenizer;
    this.maxModelLen = model.config.maxPositions;
    const threads = pool.size === 1 ? '1 thread' : `${pool.size} threads`;
    this.description = `embedded engine, ${build} SIMD, ${threads}, ${countText(parametersOf(model.config))} parameters`;
    this.lost = pool.lost;
    this.#seeds = Random.fromSeed(parts.seed);
    this.#room = new ActivationRoom(parts.memory);
  }

  async generate(request: GenerateRequest): Promise<Generation> {
    const { pool, adapters, maxPending, canSample } = this.#parts;
    pool.refuseIfEnded();
    if (!canSample) {
      throw new EngineInputError(
        'This engine was opened for training or vectors only. To sample, open it with cacheTokens above 0 and without embeds.',
        {
          code: 'unsupported',
        },
      );
    }
    // A list that has been checked is not checked again for each choice.
    const asked = this.#allowed.has(request.allowedTokenIds) ? { ...request, allowedTokenIds: null } : request;
    checkRequest(asked, { vocabularySize: this.config.vocabularySize, maxModelLen: this.maxModelLen });
    if (pool.pending >= maxPending) {
      throw new EngineBusyError(`The engine already has ${countText(maxPending)} requests, its limit (maxPending). Try again later.`, {
        retryable: true,
      });
    }
    using adapter = adapters.use(request.adapter);
    const { signal, onProgress = null, sampling, ...rest } = request;
    const allowedTokenIds = this.#allowed.of(request.allowedTokenIds);
    // A copy, because posting a view to a thread would copy its whole buffer.
    const prompt = request.prompt.slice();
    const seed = sampling.seed ?? this.#seeds.uint32();
    try {
      const generation = await pool.generate({
        request: { ...rest, prompt, sampling: { ...sampling, seed }, allowedTokenIds, adapter: adapter.weights },
        signal,
        onProgress,
      });
      this.#finished[generation.finish]++;
      return generation;
    } catch (error) {
      this.#finished[error instanceof CancelledError ? 'abort' : 'error']++;
      throw error;
    }
  }

  async embed(sequences: readonly Int32Array[], signal: AbortSignal): Promise<readonly Float32Array[]> {
    const { pool, embeds } = this.#parts;
    pool.refuseIfEnded();
    if (!embeds) throw new EngineInputError('This engine was not opened for vectors. Open it with embeds.', { code: 'unsupported' });
    for (const { length } of sequences) {
      if (length >= 1 && length <= this.maxModelLen) continue;
      throw new EngineInputError(`A sequence must have 1 to ${this.maxModelLen} tokens, got ${length}. Cut it.`);
    }
    const stranger = sequences.flatMap((ids) => [...ids]).find((id) => !(id >= 0 && id < this.config.vocabularySize));
    if (stranger !== undefined) throw new EngineInputError(`Token ids must be below ${this.config.vocabularySize}, got ${stranger}.`);
    // Copies, because posting a view to a thread would copy its whole buffer.
    const vectors = await pool.embed(
      sequences.map((ids) => ids.slice()),
      signal,
    );
    return vectors.map(scaledToOne);
  }

  async loadAdapter(adapter: { readonly name: string; readonly directory: string; readonly signal: AbortSignal }): Promise<LoadedAdapter> {
    this.#parts.pool.refuseIfEnded();
    return this.#parts.adapters.load(adapter);
  }

  unloadAdapter(name: string): boolean {
    return this.#parts.adapters.unload(name);
  }

  get adapters(): readonly LoadedAdapter[] {
    return this.#parts.adapters.list;
  }

  async createTrainer(options: TrainerOptions): Promise<EngineTrainer> {
    const { host, pool: threads, memory, kernels, model, adapters } = this.#parts;
    threads.refuseIfEnded();
    return await ShardedTrainer.create({ host, threads, memory, kernels, model, adapters, room: this.#room }, options);
  }

  stats(): EngineStats {
    const { pool, memory } = this.#parts;
    const { running, blocksUsed, blocks, promptTokens, cachedTokens, generatedTokens, preemptions } = pool.stats;
    return {
      threads: pool.size,
      requestsRunning: Math.min(running, pool.pending),
      requestsWaiting: Math.max(0, pool.pending - running),
      cacheUse: blocks === 0 ? 0 : blocksUsed / blocks,
      promptTokens,
      cachedTokens,
      generatedTokens,
      finished: { ...this.#finished },
      preemptions,
      memoryBytes: memory.used,
    };
  }

  close(): Promise<void> {
    return this.#parts.pool.close();
  }
}

function scaledToOne(vector: Float32Array): Float32Array {
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  if (!(length > 0 && Number.isFinite(length))) throw new NotFiniteError("A vector is zero or not finite. The model's weights are broken.");
  return vector.map((value) => value / length);
}

function parametersOf(config: ModelConfig): number {
  return layOutModel(config, ALL_FLOAT32, () => 0).tensors.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0);
}
