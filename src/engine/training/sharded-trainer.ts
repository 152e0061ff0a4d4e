/**
 * Trains one LoRA adapter on all threads of the engine: batches are split by whole sequences, gradients are summed in thread order, and each thread steps its
 * slice of the parameters. The number of threads therefore changes the last bits of the results; nothing else does. Trainers of an engine take turns, call by call, and
 * share the memory for activations.
 */
import { copyAdapter } from '../adapters/place-adapter.ts';
import { EngineInputError, EngineLostError, MemoryLimitError, NotFiniteError } from '../engine-errors.ts';
import type { SequenceBatch } from '../compute/training-types.ts';
import type { LoadedAdapter } from '../engine-types.ts';
import type { AdapterWeights } from '../model/model-types.ts';
import type { AdapterNumbers } from './adapter-numbers.ts';
import { batchBytes } from './batch-bytes.ts';
import { checkBatch, checkGradient } from './check-batch.ts';
import { openTrainer, type TrainerParts, type TrainerState } from './open-trainer.ts';
import { type Shard, splitBatch } from './split-batch.ts';
import { slices } from './trainer-numbers.ts';
import type { EngineAdapterState, EngineTrainer, TrainerOptions } from './trainer-types.ts';
import { type AdamOptions, adamProblem } from '../../core/adam-options.ts';
import type { TrainingAnswer, TrainingCommand } from './training-commands.ts';

type ForwardOptions = Parameters<EngineTrainer['forward']>[1];
type ForwardResult = Awaited<ReturnType<EngineTrainer['forward']>>;
type AnswerOf<K extends TrainingAnswer['kind']> = Extract<TrainingAnswer, { readonly kind: K }>;

/** A batch for which `backward` may be called. */
interface Retained {
  readonly shards: readonly Shard[];
  readonly targets: number;
  readonly entropy: boolean;
}

/** Added to the norm when the gradient is clipped, as in PyTorch. */
const CLIP_EPSILON = 1e-6;

export class ShardedTrainer implements EngineTrainer {
  readonly rank: number;
  readonly alpha: number;
  readonly modules: EngineTrainer['modules'];
  readonly maxTokens: number;
  readonly #parts: TrainerParts;
  readonly #state: TrainerState;
  readonly #numbers: AdapterNumbers;
  readonly #checkpointing: boolean;
  readonly #retained = new Map<number, Retained>();
  /** Threads that hold a part of the accumulated gradient. */
  readonly #gradients = new Set<number>();
  #batches = 0;
  #step = 0;
  /** The reason why the trainer takes no more calls; null while it does. */
  #ended: Error | null = null;
  #closing: Promise<void> | null = null;

  private constructor(parts: TrainerParts, options: TrainerOptions, state: TrainerState) {
    this.#parts = parts;
    this.#state = state;
    this.#numbers = state.numbers;
    this.#checkpointing = options.checkpointing;
    this.rank = options.rank;
    this.alpha = options.alpha;
    this.modules = state.numbers.layout.modules.map(({ path, inputs, outputs }) => ({ path, inputs, outputs }));
    this.maxTokens = state.maxTokens;
  }

  /** Rejects with EngineInputError for an invalid adapter, MemoryLimitError or CancelledError; then nothing stays allocated. */
  static async create(parts: TrainerParts, options: TrainerOptions): Promise<ShardedTrainer> {
    return new ShardedTrainer(parts, options, await openTrainer(parts, options));
  }

  forward(batch: SequenceBatch, options: ForwardOptions): Promise<ForwardResult> {
    return this.#inTurn(async () => {
      checkBatch(batch, this.#parts.model.config);
      const { adapter, retain, entropy } = options;
      if (retain && adapter !== 'on') {
        throw new EngineInputError(`A batch can only be retained with adapter 'on', got '${adapter}': frozen weights have no gradient.`);
      }
      const shards = splitBatch(batch, this.#parts.threads.size, this.#parts.model.config);
      const answers = await this.#forward(shards, options);
      const id = ++this.#batches;
      const targets = batch.targets.length;
      if (retain) {
        const retained: Retained = { shards, targets, entropy };
        this.#retained.set(id, retained);
        this.#parts.room.held = retained;
      }
      const joined = (part: (answer: AnswerOf<'log-probs'>) => Float32Array) => join(targets, shards, answers.map(part));
      return { batch: id, logProbs: joined((answer) => answer.logProbs), entropy: entropy ? joined((answer) => answer.entropy!) : null };
    });
  }

  backward(batch: number, { dLogProbs, dEntropy }: Parameters<EngineTrainer['backward']>[1]): Promise<void> {
    return this.#inTurn(async () => {
      const retained = this.#find(batch);
      const { shards, targets, entropy } = retained;
      checkGradient('dLogProbs', dLogProbs, targets);
      if (dEntropy !== null) {
        checkGradient('dEntropy', dEntropy, targets);
        if (!entropy) throw new EngineInputError('dEntropy needs entropies of the forward pass. Call forward with entropy: true.');
      }
      this.#retained.delete(batch);
      // Recomputing the same shards gives the same numbers.
      if (this.#parts.room.held !== retained) await this.#forward(shards, { adapter: 'on', retain: true, entropy });
      await this.#backward(shards, dLogProbs, dEntropy);
    });
  }

  drop(batch: number): Promise<void> {
    return this.#inTurn(async () => {
      this.#find(batch);
      this.#retained.delete(batch);
    });
  }

  zeroGrad(): Promise<void> {
    return this.#inTurn(async () => this.#gradients.clear());
  }

  step(options: AdamOptions): Promise<{ readonly step: number; readonly gradNorm: number; readonly skipped: boolean }> {
    return this.#inTurn(async () => {
      const problem = adamProblem(options);
      if (problem !== null) throw new EngineInputError(`${problem}.`);
      if (this.#gradients.size === 0) {
        throw new EngineInputError('There is no gradient for this step. Call backward first.');
      }
      const gradients = [...this.#gradients].toSorted((a, b) => a - b).map((thread) => this.#numbers.gradients[thread]!);
      this.#forgetAll();
      const gradNorm = Math.sqrt(await this.#sum(gradients));
      if (!Number.isFinite(gradNorm)) return { step: this.#step, gradNorm, skipped: true };
      const { maxGradNorm } = options;
      const scale = maxGradNorm === null ? 1 : Math.min(1, maxGradNorm / (gradNorm + CLIP_EPSILON));
      await this.#adam(gradients[0]!, scale, options);
      return { step: this.#step, gradNorm, skipped: false };
    });
  }

  read(): EngineAdapterState {
    this.#refuseIfEnded();
    return this.#numbers.read(this.#step);
  }

  write(state: EngineAdapterState): Promise<void> {
    return this.#inTurn(async () => {
      this.#forgetAll();
      this.#numbers.write(state);
      this.#step = state.step;
      this.#state.pack();
    });
  }

  serve(name: string): Promise<LoadedAdapter> {
    const { adapters, memory } = this.#parts;
    const { rank, alpha } = this;
    return this.#inTurn(() =>
      adapters.add(name, async (id) => ({ ...copyAdapter(this.#state.on, { memory, id }), about: { name, directory: null, rank, alpha } })),
    );
  }

  close(): Promise<void> {
    // Queued behind running calls, whose threads still write to this memory.
    this.#closing ??= this.#parts.room.queue.run(async () => {
      this.#ended ??= new EngineLostError('This trainer was closed.');
      this.#state.free();
    });
    return this.#closing;
  }

  async #forward(shards: readonly Shard[], { adapter, retain, entropy }: ForwardOptions): Promise<AnswerOf<'log-probs'>[]> {
    const size = { rank: adapter === 'off' ? 0 : this.rank, checkpointing: this.#checkpointing, retain };
    const { room, model } = this.#parts;
    const sizes = shards.map(({ batch }) => batchBytes(model.config, batch, size));
    const regions = room.take(this.#state.tenant, sizes);
    const weights: AdapterWeights | null = { on: this.#state.on.weights, initial: this.#state.initial, off: null }[adapter];
    const common = { kind: 'forward', adapter: weights, retain, entropy, checkpointing: this.#checkpointing } as const;
    return allEnded(shards.map(({ batch }, thread) => this.#call(thread, { ...common, batch, region: regions[thread]! }, 'log-probs')));
  }

  async #backward(shards: readonly Shard[], dLogProbs: Float32Array, dEntropy: Float32Array | null): Promise<void> {
    const { layers } = this.#parts.model.config;
    const { count } = this.#numbers.layout;
    const calls = shards.map(({ places }, thread) => {
      const pointer = this.#numbers.gradients[thread]!;
      const gradient = this.#numbers.matrices(pointer, { rank: this.rank, layers });
      const numbers = { pointer, count, fresh: !this.#gradients.has(thread) };
      const own = { dLogProbs: pick(dLogProbs, places), dEntropy: dEntropy && pick(dEntropy, places) };
      return this.#call(thread, { kind: 'backward', gradient, numbers, ...own, scale: this.alpha / this.rank }, 'done');
    });
    try {
      await allEnded(calls);
    } catch (cause) {
      // Other threads may have added their part, so the gradient is undefined now.
      this.#ended ??= new EngineLostError(`The backward pass failed; load a saved state. Cause: ${(cause as Error).message}`, { cause });
      throw this.#ended;
    }
    for (const thread of shards.keys()) this.#gradients.add(thread);
  }

  /** Sums the gradients into the first; returns the sum of squares. */
  async #sum(gradients: readonly number[]): Promise<number> {
    const sums = await allEnded(
      this.#slices().map(([from, to], thread) =>
        this.#call(thread, { kind: 'sum', pointers: gradients.map((pointer) => pointer + from * 4), count: to - from }, 'sum-of-squares'),
      ),
    );
    return sums.reduce((total, { value }) => total + value, 0);
  }

  async #adam(gradient: number, scale: number, { learningRate, beta1, beta2, epsilon, weightDecay }: AdamOptions): Promise<void> {
    const { parameters, firstMoments, secondMoments } = this.#numbers;
    const step = this.#step + 1;
    const common = { kind: 'adam', scale, learningRate, beta1, beta2, epsilon, weightDecay } as const;
    const corrections = { correction1: 1 - beta1 ** step, correction2: 1 - beta2 ** step };
    await allEnded(
      this.#slices().map(([from, to], thread) => {
        const at = (pointer: number) => pointer + from * 4;
        const vectors = { parameters: at(parameters), gradient: at(gradient), firstMoments: at(firstMoments), secondMoments: at(secondMoments) };
        return this.#call(thread, { ...common, ...corrections, ...vectors, count: to - from }, 'done');
      }),
    );
    this.#step = step;
    this.#state.pack();
  }

  #slices(): (readonly [number, number])[] {
    return slices(this.#numbers.layout.count, this.#parts.threads.size);
  }

  async #call<K extends TrainingAnswer['kind']>(thread: number, command: TrainingCommand, kind: K): Promise<AnswerOf<K>> {
    const answer = await this.#parts.threads.callTraining(thread, command).catch((error: unknown) => {
      this.#ended ??= error as Error;
      throw error;
    });
    if (answer.kind === 'failed') {
      const { code, message } = answer;
      if (code === 'not_finite') throw new NotFiniteError(message);
      if (code === 'out_of_memory') throw new MemoryLimitError(message);
      throw code === 'invalid' ? new EngineInputError(message) : new EngineLostError(`thread ${thread} failed: ${message}`);
    }
    if (answer.kind !== kind) throw new EngineLostError(`expected ${kind} of thread ${thread}, got ${answer.kind}`);
    return answer as AnswerOf<K>;
  }

  #find(batch: number): Retained {
    const found = this.#retained.get(batch);
    if (found !== undefined) return found;
    const remedy = 'It was never retained, or backward, drop, a step or a load has released it.';
    throw new EngineInputError(`Batch ${batch} is not retained. ${remedy}`);
  }

  #forgetAll(): void {
    this.#gradients.clear();
    this.#retained.clear();
  }

  #inTurn<T>(call: () => Promise<T>): Promise<T> {
    return this.#parts.room.queue.run(() => {
      this.#refuseIfEnded();
      return call();
    });
  }

  #refuseIfEnded(): void {
    if (this.#ended !== null) throw this.#ended;
  }
}

/** Like Promise.all, but rejects only once every call has settled: a running call writes to memory that the next one may reuse. */
async function allEnded<T>(calls: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(calls);
  return Promise.all(calls);
}

/** The shards' numbers in the order of the whole batch. */
function join(count: number, shards: readonly Shard[], parts: readonly Float32Array[]): Float32Array {
  const joined = new Float32Array(count);
  for (const [i, { places }] of shards.entries()) for (const [j, place] of places.entries()) joined[place] = parts[i]![j]!;
  return joined;
}

function pick(values: Float32Array, places: Int32Array): Float32Array {
  return Float32Array.from(places, (place) => values[place]!);
}
