/**
 * The engine's compute threads and their pending work. A request goes to the thread that is expected to finish it first: the least loaded one, unless another
 * has much of the prompt in its cache. The result does not depend on the thread.
 */
import { cancelled, onAbort, throwIfAborted } from '../../core/abort.ts';
import { CancelledError } from '../../core/errors.ts';
import { type EngineLostError, NotFiniteError } from '../engine-errors.ts';
import type { Generation, GenerationDelta } from '../engine-types.ts';
import { BLOCK_TOKENS } from '../kernels/kernels.ts';
import type { SamplerRequest, SamplerStats } from '../sampler/sampler-types.ts';
import type { TrainingAnswer, TrainingCommand } from '../training/training-commands.ts';
import { type FromThread, GAUGES, type StepEvents, type ThreadSetup } from './messages.ts';
import { PrefixMemory, prefixChain } from './prefix-memory.ts';
import type { StartThread, Thread } from './thread.ts';

const STOPPED = 'The generation was cancelled';

export interface PoolRequest {
  readonly request: Omit<SamplerRequest, 'id' | 'streams'>;
  readonly signal: AbortSignal;
  readonly onProgress: ((delta: GenerationDelta) => void) | null;
}

/** A call that is settled by a value, an error or the end of the pool. */
interface Waiting<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

interface PendingRequest extends Waiting<Generation> {
  readonly lane: Lane;
  readonly request: PoolRequest;
  /** Expected work, in sampled tokens. */
  readonly load: number;
}

/** A thread and its pending work. */
interface Lane {
  readonly thread: Thread;
  readonly opened: PromiseWithResolvers<void>;
  readonly training: Map<number, Waiting<TrainingAnswer>>;
  readonly embedding: Map<number, Waiting<readonly Float32Array[]>>;
  readonly forgetting: Map<number, Waiting<void>>;
  prefixes: PrefixMemory;
  gauges: Float64Array;
  load: number;
}

/** A prompt token takes about a quarter of the time of a sampled token. */
const PROMPT_LOAD = 0.25;
/** Assumed sampled tokens of a request, until some requests have finished. */
const FIRST_GUESS_TOKENS = 64;

export class ThreadPool {
  /** Resolves when a thread dies. */
  readonly lost: Promise<EngineLostError>;
  readonly #lanes: readonly Lane[];
  readonly #requests = new Map<number, PendingRequest>();
  readonly #lost = Promise.withResolvers<EngineLostError>();
  /** The reason why the pool takes no more calls; null while it does. */
  #ended: Error | null = null;
  #closing: Promise<void> | null = null;
  #nextId = 1;
  #expectedTokens = FIRST_GUESS_TOKENS;

  /** Starts the threads; they can be used once `open` has resolved. */
  constructor(threads: number, start: StartThread) {
    this.lost = this.#lost.promise;
    this.#lanes = Array.from({ length: threads }, (_, i) => this.#startLane(i, start));
  }

  #startLane(index: number, start: StartThread): Lane {
    const lane: Lane = {
      thread: start(index, {
        message: (message) => this.#receive(lane, message),
        lost: (reason) => this.#lose(reason),
      }),
      opened: Promise.withResolvers<void>(),
      training: new Map(),
      embedding: new Map(),
      forgetting: new Map(),
      prefixes: new PrefixMemory(0),
      gauges: new Float64Array(GAUGES.length),
      load: 0,
    };
    // `open` reports the rejection; until then nothing may be waiting for it.
    lane.opened.promise.catch(() => {});
    return lane;
  }

  get size(): number {
    return this.#lanes.length;
  }

  /** Number of waiting and running requests. */
  get pending(): number {
    return this.#requests.size;
  }

  /** @param setups one per thread. Rejects with EngineLostError. */
  async open(setups: readonly ThreadSetup[]): Promise<void> {
    this.refuseIfEnded();
    for (const [i, lane] of this.#lanes.entries()) {
      const setup = setups[i]!;
      lane.prefixes = new PrefixMemory(setup.sampling?.cache.blocks ?? 0);
      lane.gauges = setup.gauges;
      lane.thread.post({ kind: 'open', setup });
    }
    await Promise.all(this.#lanes.map((lane) => lane.opened.promise));
  }

  /** Rejects with CancelledError, NotFiniteError or EngineLostError, or with what `onProgress` threw. */
  async generate(request: PoolRequest): Promise<Generation> {
    this.refuseIfEnded();
    const { signal, onProgress } = request;
    throwIfAborted(signal, STOPPED);
    const id = this.#nextId++;
    const { lane, load } = this.#route(request);
    lane.thread.post({ kind: 'generate', request: { ...request.request, id, streams: onProgress !== null } });
    const { promise, resolve, reject } = Promise.withResolvers<Generation>();
    this.#requests.set(id, { lane, request, load, resolve, reject });
    lane.load += load;
    using _ = onAbort(signal, () => this.#abort(id, cancelled(signal, STOPPED)));
    return await promise;
  }

  /** The last hidden states of sequences, from the thread with the least work. Rejects with CancelledError or EngineLostError. */
  async embed(sequences: readonly Int32Array[], signal: AbortSignal): Promise<readonly Float32Array[]> {
    this.refuseIfEnded();
    throwIfAborted(signal, STOPPED);
    const lane = this.#lanes.reduce((best, other) => (other.load < best.load ? other : best));
    const load = PROMPT_LOAD * sequences.reduce((sum, { length }) => sum + length, 0);
    const call = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<readonly Float32Array[]>();
    lane.embedding.set(call, { resolve, reject });
    lane.load += load;
    lane.thread.post({ kind: 'embed', call, sequences });
    // The thread goes on with what it began; its answer is dropped.
    using _ = onAbort(signal, () => reject(cancelled(signal, STOPPED)));
    try {
      return await promise;
    } finally {
      lane.load -= load;
    }
  }

  /** The thread for a request, and the load that it adds there. */
  #route(request: PoolRequest): { lane: Lane; load: number } {
    const { prompt, maxTokens, promptLogProbs } = request.request;
    const chain = this.#chain(request, prompt);
    const missing = ({ prefixes }: Lane) => prompt.length - (promptLogProbs === null ? prefixes.known(chain) * BLOCK_TOKENS : 0);
    // Missing tokens count in full here, though they take less time, because they also take room in a second cache.
    const costs = this.#lanes.map((lane) => lane.load + missing(lane));
    const lane = this.#lanes[costs.indexOf(Math.min(...costs))]!;
    const load = Math.min(maxTokens, this.#expectedTokens) + PROMPT_LOAD * missing(lane);
    lane.prefixes.remember(chain);
    return { lane, load };
  }

  #chain({ request }: PoolRequest, tokens: Int32Array): Float64Array {
    return prefixChain({ adapter: request.adapter?.id ?? 0, salt: request.cacheSalt }, tokens);
  }

  #abort(id: number, reason: Error): void {
    const pending = this.#settled(id);
    if (pending === null) return;
    pending.lane.thread.post({ kind: 'abort', id });
    pending.reject(reason);
  }

  /** Removes a request and returns it; null if it was removed before. */
  #settled(id: number): PendingRequest | null {
    const pending = this.#requests.get(id);
    if (pending === undefined) return null;
    this.#requests.delete(id);
    pending.lane.load -= pending.load;
    return pending;
  }

  /** Resolves once no thread reads the adapter any more. Rejects with EngineLostError. */
  async forgetAdapter(adapter: number): Promise<void> {
    this.refuseIfEnded();
    await Promise.all(
      this.#lanes.map((lane) => {
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        lane.forgetting.set(adapter, { resolve, reject });
        lane.thread.post({ kind: 'forget', adapter });
        return promise;
      }),
    );
  }

  /** Has a thread carry out a training command between two steps of its sampler. Rejects with EngineLostError. */
  async callTraining(thread: number, command: TrainingCommand): Promise<TrainingAnswer> {
    this.refuseIfEnded();
    const lane = this.#lanes[thread]!;
    const call = this.#nextId++;
    const { promise, resolve, reject } = Promise.withResolvers<TrainingAnswer>();
    lane.training.set(call, { resolve, reject });
    lane.thread.post({ kind: 'training', call, command });
    return promise;
  }

  /** Summed over all threads. */
  get stats(): SamplerStats {
    const sums = GAUGES.map((gauge, i) => [gauge, this.#lanes.reduce((sum, { gauges }) => sum + gauges[i]!, 0)]);
    return Object.fromEntries(sums) as Record<(typeof GAUGES)[number], number>;
  }

  /** Ends the threads; pending calls reject with CancelledError. */
  close(): Promise<void> {
    this.#end(new CancelledError('The embedded engine was closed'));
    this.#closing ??= this.#terminate();
    return this.#closing;
  }

  async #terminate(): Promise<void> {
    await Promise.all(this.#lanes.map(({ thread }) => thread.terminate()));
  }

  #receive(lane: Lane, message: FromThread): void {
    if (message.kind === 'stepped') this.#takeStep(message);
    else if (message.kind === 'opened') lane.opened.resolve();
    else if (message.kind === 'embedded') taken(lane.embedding, message.call)?.resolve(message.vectors);
    else if (message.kind === 'forgotten') taken(lane.forgetting, message.adapter)?.resolve();
    else taken(lane.training, message.call)?.resolve(message.answer);
  }

  #takeStep({ progress, finished, failed }: StepEvents): void {
    for (const { id, delta } of progress) this.#report(id, delta);
    for (const { id, generation } of finished) {
      const pending = this.#settled(id);
      if (pending === null) continue;
      this.#expectedTokens += (generation.ids.length - this.#expectedTokens) / 16;
      pending.lane.prefixes.remember(this.#chain(pending.request, joined(pending.request.request.prompt, generation.ids)));
      pending.resolve(generation);
    }
    for (const { id, message } of failed) {
      this.#settled(id)?.reject(new NotFiniteError(`Log-probs are not finite: ${message}. The model's weights or its adapter are broken.`));
    }
  }

  #report(id: number, delta: GenerationDelta): void {
    try {
      this.#requests.get(id)?.request.onProgress?.(delta);
    } catch (thrown) {
      // A throwing callback ends its own request only.
      this.#abort(id, thrown instanceof Error ? thrown : new Error(String(thrown)));
    }
  }

  #lose(reason: EngineLostError): void {
    this.#end(reason);
    this.#lost.resolve(reason);
    // After one thread has died the engine is unusable, so the others end too.
    this.#closing ??= this.#terminate();
  }

  #end(reason: Error): void {
    this.#ended ??= reason;
    for (const lane of this.#lanes) {
      lane.opened.reject(reason);
      for (const waiting of [...lane.training.values(), ...lane.embedding.values(), ...lane.forgetting.values()]) waiting.reject(reason);
      lane.training.clear();
      lane.embedding.clear();
      lane.forgetting.clear();
    }
    for (const id of this.#requests.keys()) this.#settled(id)?.reject(reason);
  }

  /** Throws the reason, an EngineLostError or a CancelledError, once the pool takes no more calls. */
  refuseIfEnded(): void {
    if (this.#ended !== null) throw this.#ended;
  }
}

function taken<T>(waiting: Map<number, T>, id: number): T | undefined {
  const found = waiting.get(id);
  waiting.delete(id);
  return found;
}

/** All tokens but the last, whose keys and values are never computed. */
function joined(prompt: Int32Array, ids: Int32Array): Int32Array {
  const tokens = new Int32Array(prompt.length + ids.length);
  tokens.set(prompt);
  tokens.set(ids, prompt.length);
  return tokens.subarray(0, -1);
}
