/** A sampler, what it reports, and requests for it. */
import { SharedMemory } from '../../../src/engine/compute/memory.ts';
import type { ForwardLimits } from '../../../src/engine/compute/forward-types.ts';
import type { Generation, GenerationDelta } from '../../../src/engine/engine-types.ts';
import { instantiateKernels } from '../../../src/engine/kernels/compile-kernels.ts';
import { loadKernelsModule } from '../../../src/engine/kernels/load-kernels.ts';
import { BatchSampler, type BatchSamplerOptions } from '../../../src/engine/sampler/batch-sampler.ts';
import type { SamplerRequest } from '../../../src/engine/sampler/sampler-types.ts';
import type { TokenBytes } from '../../../src/tokenizer/tokenizer-types.ts';
import { HistoryPass } from './history-pass.ts';

/** The table of tokens that have this text or these bytes. */
export function bytesTable(parts: readonly (string | readonly number[])[], special: readonly number[]): TokenBytes {
  const all = parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Uint8Array.from(part)));
  const starts = new Uint32Array(all.length + 1);
  for (const [i, part] of all.entries()) starts[i + 1] = starts[i]! + part.length;
  return { bytes: new Uint8Array(Buffer.concat(all)), starts, special: Uint8Array.from(all, (_, i) => Number(special.includes(i))) };
}

/** 0 is the end token, 1 another special one; the rest is text, some of it halves of characters. */
const TEXTS = '<end> <other> a b c ab bc abc _ _a < / > </ </a> s st stop top op p \n é 😀 中'.split(' ').map((text) => text.replace('_', ' '));
const HALVES = [[0xc3], [0xa9], [0xf0, 0x9f], [0x98], [0x80], [0xe4, 0xb8], [0xad], [0xff], [0xc3, 0x61]];
export const WORDS = bytesTable([...TEXTS, ...HALVES, 'x', 'y', 'z'], [0, 1]);
export const VOCABULARY = WORDS.special.length;

export type RequestParts = Partial<Omit<SamplerRequest, 'sampling' | 'stop'>> & {
  readonly id: number;
  readonly prompt: Int32Array;
  readonly sampling?: Partial<SamplerRequest['sampling']>;
  readonly stop?: Partial<SamplerRequest['stop']>;
};

/** Greedy and up to 8 tokens by default. */
export function requestOf({ sampling, stop, ...parts }: RequestParts): SamplerRequest {
  return {
    adapter: null,
    maxTokens: 8,
    sampling: { temperature: 0, topP: 1, topK: -1, minP: 0, seed: null, ...sampling },
    stop: { strings: [], includeString: true, tokenIds: [], ignoreEnd: false, minTokens: 0, ...stop },
    skipSpecialTokens: true,
    logProbs: 0,
    promptLogProbs: null,
    logProbsMode: 'raw',
    allowedTokenIds: null,
    cacheSalt: null,
    streams: false,
    ...parts,
  };
}

export class SamplerRun {
  readonly sampler: BatchSampler;
  readonly generations = new Map<number, Generation>();
  readonly failures = new Map<number, { readonly code: string; readonly message: string }>();
  readonly deltas = new Map<number, GenerationDelta[]>();
  /** Called with each event, after it was recorded. */
  onEvent: (id: number) => void = () => {};

  constructor(options: Omit<BatchSamplerOptions, 'events'>) {
    this.sampler = new BatchSampler({
      ...options,
      events: {
        progress: (id, delta) => {
          this.deltas.set(id, [...(this.deltas.get(id) ?? []), delta]);
          this.onEvent(id);
        },
        finished: (id, generation) => {
          this.generations.set(id, generation);
          this.onEvent(id);
        },
        failed: (id, failure) => {
          this.failures.set(id, failure);
          this.onEvent(id);
        },
      },
    });
  }

  add(...requests: readonly SamplerRequest[]): this {
    for (const request of requests) this.sampler.add(request);
    return this;
  }

  /** Steps until nothing is left to do. */
  finish(): this {
    for (let steps = 0; !this.sampler.isIdle; steps++) {
      if (steps > 20_000) throw new Error('expected the sampler to come to an end');
      this.sampler.step();
    }
    return this;
  }

  /** The result of a request that ran to its end. */
  generation(id: number): Generation {
    const generation = this.generations.get(id);
    if (generation === undefined) throw new Error(`expected request ${id} to have finished, got ${this.failures.get(id)?.message ?? 'nothing'}`);
    return generation;
  }
}

export interface HistoryRunOptions {
  readonly blocks?: number;
  readonly maxModelLen?: number;
  readonly limits?: Partial<ForwardLimits>;
  readonly seed?: number;
}

const bench = { memory: new SharedMemory(), module: loadKernelsModule().module };
export const testKernels = { memory: bench.memory, kernels: instantiateKernels(bench.module, bench.memory.memory) };

/** A sampler over a pass that hashes histories. */
export function historyRun({ blocks = 256, maxModelLen = 128, limits, seed = 1 }: HistoryRunOptions = {}): SamplerRun & {
  readonly pass: HistoryPass;
} {
  const { memory, kernels } = testKernels;
  const pass = new HistoryPass({ memory, limits: { rows: 64, logitRows: 3, ...limits }, blocks, vocabularySize: VOCABULARY });
  const model = { vocabularySize: VOCABULARY, endTokenIds: [0] };
  const run = new SamplerRun({ pass, blocks, kernels, memory: memory.memory, model, tokenBytes: WORDS, maxModelLen, seed });
  return Object.assign(run, { pass });
}
