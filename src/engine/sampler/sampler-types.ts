/** Continuous batching within one thread: requests join and leave between two forward passes. */
import type { Generation, GenerateRequest, GenerationDelta } from '../engine-types.ts';
import type { AdapterWeights } from '../model/model-types.ts';

/** A request as it is sent to a thread: plain data. */
export interface SamplerRequest extends Omit<GenerateRequest, 'adapter' | 'allowedTokenIds' | 'signal' | 'onProgress'> {
  readonly id: number;
  readonly adapter: AdapterWeights | null;
  /** An Int32Array is ascending, without repetitions. */
  readonly allowedTokenIds: readonly number[] | Int32Array | null;
  /** True to emit `progress`. */
  readonly streams: boolean;
}

export interface SamplerFailure {
  readonly code: 'not_finite' | 'internal';
  readonly message: string;
  /** The error that was thrown; absent if none was. */
  readonly cause?: unknown;
}

export interface SamplerEvents {
  progress(id: number, delta: GenerationDelta): void;
  finished(id: number, generation: Generation): void;
  /** `not_finite`: the logits held a NaN or an infinity. Other requests continue; the entries of the failed one are removed from the cache. */
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
  /** Never throws: requests are checked before they come here. */
  add(request: SamplerRequest): void;
  /** Removes a running or waiting request; no event follows. Ignores unknown ids. */
  abort(id: number): void;
  /** True if no request runs or waits. */
  readonly isIdle: boolean;
  /** Runs one forward pass over all requests that fit, and emits its events. */
  step(): void;
  /** Drops the cached prefixes of an unloaded adapter. */
  forgetAdapter(id: number): void;
  readonly stats: SamplerStats;
}
