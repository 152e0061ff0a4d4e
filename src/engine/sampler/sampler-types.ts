/** Continuous batching within one thread: requests come and go between two forward passes. */
import type { Generation, GenerateRequest, GenerationDelta } from '../engine-types.ts';
import type { AdapterWeights } from '../model/model-types.ts';

/** A request as it travels to a thread: plain data. */
export interface SamplerRequest extends Omit<GenerateRequest, 'adapter' | 'allowedTokenIds' | 'signal' | 'onProgress'> {
  readonly id: number;
  readonly adapter: AdapterWeights | null;
  /** Typed numbers are ascending, each once. */
  readonly allowedTokenIds: readonly number[] | Int32Array | null;
  /** Whether somebody wants `progress`. */
  readonly streams: boolean;
}

export interface SamplerFailure {
  readonly code: 'not_finite' | 'internal';
  readonly message: string;
  /** What was thrown, where something was. */
  readonly cause?: unknown;
}

export interface SamplerEvents {
  progress(id: number, delta: GenerationDelta): void;
  finished(id: number, generation: Generation): void;
  /** `not_finite`: the logits held NaN or an infinity. Others go on; nothing that such a request wrote stays in the cache. */
  failed(id: number, failure: SamplerFailure): void;
}

export interface SamplerStats {
  readonly running: number;
  readonly waiting: number;
  readonly blocksUsed: number;
  readonly blocks: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly preemptions: number;
}

export interface Sampler {
  /** Never throws: what is wrong with a request has been refused before it came here. */
  add(request: SamplerRequest): void;
  /** Forgets a request, running or waiting; no event follows. Unknown ids are fine. */
  abort(id: number): void;
  /** Nothing runs or waits. */
  readonly isIdle: boolean;
  /** One forward pass over everything that runs and fits, and its consequences. */
  step(): void;
  /** Forgets the cached prefixes of an adapter that is gone. */
  forgetAdapter(id: number): void;
  readonly stats: SamplerStats;
}
