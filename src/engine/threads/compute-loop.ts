/** What a compute thread does with its messages: requests go to its sampler, commands of training to its trainer, and the two take turns. */
import { TransformerPass } from '../compute/transformer-pass.ts';
import { instantiateKernels } from '../kernels/load-kernels.ts';
import type { Kernels } from '../kernels/kernels.ts';
import { MAX_ADAPTER_RANK } from '../model/model-types.ts';
import { BatchSampler } from '../sampler/batch-sampler.ts';
import type { Sampler, SamplerEvents } from '../sampler/sampler-types.ts';
import { ThreadTrainer } from '../training/thread-trainer.ts';
import { type FromThread, GAUGES, type SamplingRoom, type StepEvents, type ThreadSetup, type ToThread } from './messages.ts';

type TrainingCall = Extract<ToThread, { kind: 'training' }>;
type Collected = { -readonly [K in 'progress' | 'finished' | 'failed']: StepEvents[K][number][] };

/** What `open` makes. */
interface Opened {
  readonly gauges: Float64Array;
  readonly sampler: Sampler | null;
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
      // A fault of ours, a trap in a kernel even: nothing that this thread holds is to be relied on.
      if (code === 'internal') throw cause instanceof Error ? cause : new Error(message, { cause });
      this.#collected.failed.push({ id, message });
    },
  };

  constructor(post: (message: FromThread) => void) {
    this.#post = post;
  }

  /** Throws where the main thread asks for what cannot be: the end of the thread. */
  take(message: ToThread): void {
    if (message.kind === 'open') this.#open(message.setup);
    else if (message.kind === 'generate') this.#sampler.add(message.request);
    else if (message.kind === 'abort') this.#abort(message.id);
    else if (message.kind === 'forget') this.#forget(message.adapter);
    else this.#training.push(message);
  }

  /** One command of training and one step of the sampler; false where there was neither to do. What it throws is the end of the thread. */
  advance(): boolean {
    const call = this.#training.shift();
    if (call !== undefined) this.#post({ kind: 'trained', call: call.call, answer: this.#parts.trainer.handle(call.command) });
    const sampler = this.#opened?.sampler ?? null;
    const samples = sampler !== null && !sampler.isIdle;
    if (samples) this.#step(sampler);
    return call !== undefined || samples;
  }

  get #parts(): Opened {
    if (this.#opened === null) throw new Error('expected `open` to come first');
    return this.#opened;
  }

  get #sampler(): Sampler {
    const { sampler } = this.#parts;
    if (sampler === null) throw new Error('expected no request, this thread only trains');
    return sampler;
  }

  #open(setup: ThreadSetup): void {
    const { module, memory, weights: model, gauges } = setup;
    const kernels = instantiateKernels(module, memory);
    const trainer = new ThreadTrainer({ kernels, memory, model });
    const sampler = setup.sampling && openSampler(setup, kernels, setup.sampling, this.#events);
    this.#opened = { gauges, sampler, trainer };
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

  #abort(id: number): void {
    this.#sampler.abort(id);
    // No step may follow that would do it.
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

function openSampler({ memory, weights, tokenBytes }: ThreadSetup, kernels: Kernels, sampling: SamplingRoom, events: SamplerEvents): Sampler {
  const { limits, cache, scratch: region } = sampling;
  const { config } = weights;
  const pass = new TransformerPass({ kernels, memory, model: weights, cache, region, limits, maxRank: MAX_ADAPTER_RANK });
  // Every request brings its seed: the engine has given one to those that had none.
  const seed = 0;
  return new BatchSampler({ pass, blocks: cache.blocks, kernels, memory, model: config, tokenBytes, maxModelLen: config.maxPositions, seed, events });
}

const nothingCollected = (): Collected => ({ progress: [], finished: [], failed: [] });
