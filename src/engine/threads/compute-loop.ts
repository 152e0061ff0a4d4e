/** Handles a compute thread's messages: requests go to its sampler, training commands to its trainer, and the two take turns. */
import { SequenceEmbedder } from '../compute/sequence-embedder.ts';
import { TransformerPass } from '../compute/transformer-pass.ts';
import { instantiateKernels } from '../kernels/compile-kernels.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { MAX_ADAPTER_RANK } from '../model/model-types.ts';
import { BatchSampler } from '../sampler/batch-sampler.ts';
import type { Sampler, SamplerEvents } from '../sampler/sampler-types.ts';
import { ThreadTrainer } from '../training/thread-trainer.ts';
import { type FromThread, GAUGES, type SamplingRoom, type StepEvents, type ThreadSetup, type ToThread } from './messages.ts';

type TrainingCall = Extract<ToThread, { kind: 'training' }>;
type Collected = { -readonly [K in 'progress' | 'finished' | 'failed']: StepEvents[K][number][] };

/** The parts that the message `open` creates. */
interface Opened {
  readonly gauges: Float64Array;
  readonly sampler: Sampler | null;
  readonly embedder: SequenceEmbedder | null;
  readonly trainer: ThreadTrainer;
}

export class ComputeLoop {
  readonly #post: (message: FromThread) => void;
  readonly #training: TrainingCall[] = [];
  #opened: Opened | null = null;
  #collected = nothingCollected();

  readonly #events: SamplerEvents = {
    progress: (id, delta) => this.#collected.progress.push({ id, delta }),
    finished: (id, generation) => this.#collected.finished.push({ id, generation }),
    failed: (id, { code, message, cause }) => {
      // A bug of ours, possibly a trap in a kernel: this thread's state can no longer be trusted.
      if (code === 'internal') throw cause instanceof Error ? cause : new Error(message, { cause });
      this.#collected.failed.push({ id, message });
    },
  };

  constructor(post: (message: FromThread) => void) {
    this.#post = post;
  }

  /** Throws on an impossible message, which ends the thread. */
  take(message: ToThread): void {
    if (message.kind === 'open') this.#open(message.setup);
    else if (message.kind === 'generate') this.#sampler.add(message.request);
    else if (message.kind === 'abort') this.#abort(message.id);
    else if (message.kind === 'embed') this.#embed(message.call, message.sequences);
    else if (message.kind === 'forget') this.#forget(message.adapter);
    else this.#training.push(message);
  }

  /** Does one training command and one step of the sampler; false if there was neither. Anything it throws ends the thread. */
  advance(): boolean {
    const call = this.#training.shift();
    if (call !== undefined) this.#post({ kind: 'trained', call: call.call, answer: this.#parts.trainer.handle(call.command) });
    const sampler = this.#opened?.sampler ?? null;
    const samples = sampler !== null && !sampler.isIdle;
    if (samples) this.#step(sampler);
    return call !== undefined || samples;
  }

  get #parts(): Opened {
    if (this.#opened === null) throw new Error('the first message to this thread must be `open`');
    return this.#opened;
  }

  get #sampler(): Sampler {
    const { sampler } = this.#parts;
    if (sampler === null) throw new Error('this thread only trains and cannot take a request');
    return sampler;
  }

  #open(setup: ThreadSetup): void {
    const { module, memory, weights: model, gauges } = setup;
    const kernels = instantiateKernels(module, memory);
    const trainer = new ThreadTrainer({ kernels, memory, model });
    const { sampling: room, embeds } = setup;
    const sampler = room === null || embeds ? null : openSampler(setup, kernels, room, this.#events);
    const embedder = room === null || !embeds ? null : openEmbedder(setup, kernels, room);
    this.#opened = { gauges, sampler, embedder, trainer };
    this.#post({ kind: 'opened' });
  }

  #step(sampler: Sampler): void {
    sampler.step();
    this.#writeGauges(sampler);
    const { progress, finished, failed } = this.#collected;
    if (progress.length + finished.length + failed.length === 0) return;
    this.#post({ kind: 'stepped', progress, finished, failed });
    this.#collected = nothingCollected();
  }

  #embed(call: number, sequences: readonly Int32Array[]): void {
    const { embedder } = this.#parts;
    if (embedder === null) throw new Error('this thread was not opened for vectors and cannot make any');
    this.#post({ kind: 'embedded', call, vectors: embedder.embed(sequences) });
  }

  #abort(id: number): void {
    this.#sampler.abort(id);
    // No step may follow that would write them.
    this.#writeGauges(this.#sampler);
  }

  #forget(adapter: number): void {
    this.#parts.sampler?.forgetAdapter(adapter);
    this.#post({ kind: 'forgotten', adapter });
  }

  #writeGauges({ stats }: Sampler): void {
    const { gauges } = this.#parts;
    for (const [i, gauge] of GAUGES.entries()) gauges[i] = stats[gauge];
  }
}

function openPass({ memory, weights: model }: ThreadSetup, kernels: Kernels, { limits, cache, scratch: region }: SamplingRoom): TransformerPass {
  return new TransformerPass({ kernels, memory, model, cache, region, limits, maxRank: MAX_ADAPTER_RANK });
}

function openEmbedder(setup: ThreadSetup, kernels: Kernels, room: SamplingRoom): SequenceEmbedder {
  return new SequenceEmbedder({ pass: openPass(setup, kernels, room), blocks: room.cache.blocks, hidden: setup.weights.config.hiddenSize });
}

function openSampler(setup: ThreadSetup, kernels: Kernels, room: SamplingRoom, events: SamplerEvents): Sampler {
  const { memory, weights, tokenBytes } = setup;
  const { cache } = room;
  const { config } = weights;
  const pass = openPass(setup, kernels, room);
  // Unused: the engine gives every request a seed.
  const seed = 0;
  return new BatchSampler({ pass, blocks: cache.blocks, kernels, memory, model: config, tokenBytes, maxModelLen: config.maxPositions, seed, events });
}

const nothingCollected = (): Collected => ({ progress: [], finished: [], failed: [] });
