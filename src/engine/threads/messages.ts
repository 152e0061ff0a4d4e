/** Messages between the main thread and a compute thread. They hold plain data and shared memory only, so nothing large is copied. */
import type { Generation, GenerationDelta } from '../engine-types.ts';
import type { CacheRegion, ForwardLimits } from '../compute/forward-types.ts';
import type { MemoryRegion } from '../compute/memory.ts';
import type { EngineMemory, KernelsModule } from '../kernels/web-assembly.ts';
import type { ModelWeights } from '../model/model-types.ts';
import type { SamplerRequest, SamplerStats } from '../sampler/sampler-types.ts';
import type { TokenBytes } from '../../tokenizer/tokenizer-types.ts';
import type { TrainingAnswer, TrainingCommand } from '../training/training-commands.ts';

/** Everything that a thread needs to compute. */
export interface ThreadSetup {
  readonly module: KernelsModule;
  readonly memory: EngineMemory;
  readonly weights: ModelWeights;
  readonly tokenBytes: TokenBytes;
  /** Null if this thread only trains. */
  readonly sampling: SamplingRoom | null;
  /** True if the thread computes vectors of sequences instead of sampling. */
  readonly embeds: boolean;
  /** [GAUGES.length], shared: written by the thread after each step, read by the main thread at any time. */
  readonly gauges: Float64Array;
}

export interface SamplingRoom {
  readonly limits: ForwardLimits;
  readonly cache: CacheRegion;
  readonly scratch: MemoryRegion;
}

export type ToThread =
  | { readonly kind: 'open'; readonly setup: ThreadSetup }
  | { readonly kind: 'generate'; readonly request: SamplerRequest }
  | { readonly kind: 'abort'; readonly id: number }
  /** Answered by `embedded`. */
  | { readonly kind: 'embed'; readonly call: number; readonly sequences: readonly Int32Array[] }
  /** Answered by `forgotten`, after which the thread no longer reads that adapter. */
  | { readonly kind: 'forget'; readonly adapter: number }
  /** Answered by `trained`, in order of arrival. */
  | { readonly kind: 'training'; readonly call: number; readonly command: TrainingCommand };

export type FromThread =
  | { readonly kind: 'opened' }
  | StepEvents
  | { readonly kind: 'embedded'; readonly call: number; readonly vectors: readonly Float32Array[] }
  | { readonly kind: 'forgotten'; readonly adapter: number }
  | { readonly kind: 'trained'; readonly call: number; readonly answer: TrainingAnswer };

/** The results of one step of the sampler. */
export interface StepEvents {
  readonly kind: 'stepped';
  readonly progress: readonly { readonly id: number; readonly delta: GenerationDelta }[];
  readonly finished: readonly { readonly id: number; readonly generation: Generation }[];
  /** The model computed a NaN or an infinity. */
  readonly failed: readonly { readonly id: number; readonly message: string }[];
}

/** The order of `ThreadSetup.gauges`. */
export const GAUGES = [
  'running',
  'waiting',
  'blocksUsed',
  'blocks',
  'promptTokens',
  'cachedTokens',
  'generatedTokens',
  'preemptions',
] as const satisfies readonly (keyof SamplerStats)[];
