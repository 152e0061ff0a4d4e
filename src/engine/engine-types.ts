/**
 * The engine's interface for its users in this package: the policy server, the gradient backend, commands, and `library/`, which adds text, defaults and plain arrays for
 * programs. An engine holds a model in memory, threads that sample and train it, and named adapters. It handles tokens, text and log-probs, not rewards or HTTP.
 */
import type { ModelConfig } from './model/model-types.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';
import type { EngineTrainer, TrainerOptions } from './training/trainer-types.ts';

export interface EngineOptions {
  /** Directory of a dense Qwen3 model in the Hugging Face format. */
  readonly modelPath: string;
  /** A chat template (Jinja) that replaces the model's own. @default the model's own, if it has one */
  readonly chatTemplate?: string;
  /** Compute threads, from 1 to 64. @default the machine's cores, at most 8 */
  readonly threads?: number;
  /** Longest sequence, in tokens. @default the model's own limit, or less if the memory that the model leaves holds less */
  readonly maxModelLen?: number;
  /** Size of each thread's key-value cache, in tokens; at least `maxModelLen`. 0: the engine only trains. @default its share of 64 MiB, at least maxModelLen */
  readonly cacheTokens?: number;
  /** Opens the engine for `embed`, in place of `generate`. @default false */
  readonly embeds?: boolean;
  /** Maximum of waiting and running requests, from 1; beyond it `generate` rejects with EngineBusyError. @default 1024 */
  readonly maxPending?: number;
  /** Any integer. Requests without a seed get theirs from it, in the order of arrival. @default 0, as in vLLM */
  readonly seed?: number;
  readonly signal: AbortSignal;
}

interface Sampling {
  /** In [0, 2]. Below 1e-5 sampling is greedy. */
  readonly temperature: number;
  /** In (0, 1]: keeps the likeliest tokens whose probabilities sum to this. */
  readonly topP: number;
  /** Keeps this many of the likeliest tokens, plus any tied with the last of them; -1 or 0 keeps all. */
  readonly topK: number;
  /** In [0, 1]: drops tokens below this share of the likeliest token's probability. */
  readonly minP: number;
  /** Any integer. The same seed and request give the same tokens, whatever else runs; null takes the engine's next seed. */
  readonly seed: number | null;
}

export interface GenerateRequest {
  /** [n] with n ≥ 1 and n + 1 ≤ maxModelLen. */
  readonly prompt: Int32Array;
  /** Name of a loaded adapter; null is the base model. */
  readonly adapter: string | null;
  /** From 1. Generation also ends at maxModelLen, without an error, as in vLLM. */
  readonly maxTokens: number;
  readonly sampling: Sampling;
  readonly stop: {
    /** Any of these ends the generation, even if it ends in the middle of a token. */
    readonly strings: readonly string[];
    /** Keeps the matched string in the text. */
    readonly includeString: boolean;
    readonly tokenIds: readonly number[];
    /** Continues past the model's own end tokens. */
    readonly ignoreEnd: boolean;
    /** No end token and no stop takes effect before this many tokens; from 0 to `maxTokens`. */
    readonly minTokens: number;
  };
  /** Leaves special tokens out of the text. @default true in vLLM */
  readonly skipSpecialTokens: boolean;
  /** Returns log-probs of the sampled tokens and of this many likeliest ones, from 0 to 20; null returns none. */
  readonly logProbs: number | null;
  /** The same for the prompt's tokens, always raw. Such a request does not read the prefix cache. */
  readonly promptLogProbs: number | null;
  /** `raw`: log-probs of the model's own distribution. `processed`: of the filtered one that tokens are drawn from. */
  readonly logProbsMode: 'raw' | 'processed';
  /** Only these may be sampled; null allows all. Requests with the same list share it, so it must not change afterwards. */
  readonly allowedTokenIds: readonly number[] | null;
  /** Only requests with the same salt share cached prefixes. */
  readonly cacheSalt: string | null;
  readonly signal: AbortSignal;
  /** Called after each step with the new part. Text is held back while it may be half a character or the start of a stop string. */
  readonly onProgress?: (delta: GenerationDelta) => void;
}

export interface TokenLogProb {
  readonly id: number;
  readonly logProb: number;
  /** 1 is the likeliest. */
  readonly rank: number;
}

export interface GenerationDelta {
  readonly ids: Int32Array;
  readonly text: string;
  readonly logProbs: Float32Array;
  /** For each token: the sampled one first, then the likeliest; null if only the sampled one was requested. */
  readonly alternatives: readonly (readonly TokenLogProb[])[] | null;
}

export interface Generation {
  /** Up to and including the stop or end token, or the token that completed a stop string. */
  readonly ids: Int32Array;
  /** Cut at the stop string. Leaves out trailing bytes of an incomplete character; includes a character that the prompt began. */
  readonly text: string;
  /** UTF-16 offset of each token's text in the uncut text, as vLLM's text_offset. [ids.length] */
  readonly textOffsets: Int32Array;
  /** Natural log. [ids.length]; empty unless requested. */
  readonly logProbs: Float32Array;
  readonly alternatives: readonly (readonly TokenLogProb[])[] | null;
  /** For each token of the prompt: itself first, then the likeliest; null for the first token. */
  readonly promptLogProbs: readonly (readonly TokenLogProb[] | null)[] | null;
  readonly finish: 'stop' | 'length';
  /** The stop string or token id; null for the model's end token and for `length`. */
  readonly stopReason: string | number | null;
  /** Tokens of the prompt that were read from the cache. */
  readonly cachedTokens: number;
}

export interface LoadedAdapter {
  readonly name: string;
  /** Null for a copy of an adapter in training. */
  readonly directory: string | null;
  readonly rank: number;
  readonly alpha: number;
}

export interface EngineStats {
  readonly threads: number;
  readonly requestsRunning: number;
  readonly requestsWaiting: number;
  /** Share of the cache's blocks that running requests hold, in [0, 1]. */
  readonly cacheUse: number;
  /** Totals since the start. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly finished: Readonly<Record<'stop' | 'length' | 'abort' | 'error', number>>;
  readonly preemptions: number;
  /** Allocated bytes of the shared memory. */
  readonly memoryBytes: number;
}

export interface TokenEngine {
  readonly config: ModelConfig;
  readonly tokenizer: ModelTokenizer;
  readonly maxModelLen: number;
  /** For people, e.g. `embedded engine, relaxed SIMD, 2 threads, 596,049,920 parameters`. */
  readonly description: string;
  /** Resolves with the reason when a thread dies; from then on every call rejects with EngineLostError. */
  readonly lost: Promise<Error>;
  /** Rejects with EngineInputError (nothing ran), EngineBusyError, CancelledError, NotFiniteError (the model computed a NaN) or EngineLostError. */
  generate(request: GenerateRequest): Promise<Generation>;
  /**
   * A vector of each sequence, of length 1: its last token's hidden state after the last norm, as Qwen3-Embedding makes them. [hiddenSize] Only of an engine that was
   * opened for it. Rejects with EngineInputError (nothing ran), CancelledError, NotFiniteError or EngineLostError.
   */
  embed(sequences: readonly Int32Array[], signal: AbortSignal): Promise<readonly Float32Array[]>;
  /**
   * Reads a PEFT directory; requests can use the name once this resolves. Rejects with EngineInputError if the directory is missing, is not a LoRA of this model, has
   * a wrong shape or a number that is not finite, or if the name is taken (see `code`).
   */
  loadAdapter(adapter: { readonly name: string; readonly directory: string; readonly signal: AbortSignal }): Promise<LoadedAdapter>;
  /** New requests can no longer use the name; running ones finish. False if there is no such adapter. */
  unloadAdapter(name: string): boolean;
  /** Loaded adapters in loading order: the same objects that `loadAdapter` returned. */
  readonly adapters: readonly LoadedAdapter[];
  /**
   * Several trainers may exist; only memory limits their number. Each has an adapter of its own and gives the numbers that it would give alone. Their calls are carried out one
   * at a time, in the order in which they were made, and they share the memory for activations. Rejects with EngineInputError, MemoryLimitError (the trainer, and the largest
   * batches of the earlier ones, do not fit), CancelledError or EngineLostError; then nothing stays allocated.
   */
  createTrainer(options: TrainerOptions): Promise<EngineTrainer>;
  stats(): EngineStats;
  /** Running requests reject with CancelledError. */
  close(): Promise<void>;
}
