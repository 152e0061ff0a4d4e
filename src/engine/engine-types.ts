/**
 * The engine as its users see it: the policy server, the gradient backend, a command. A model in memory, threads that sample and train it, adapters by name.
 * It knows tokens, text and log-probs; it knows nothing of rewards or of HTTP.
 */
import type { ModelConfig } from './model/model-types.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';
import type { EngineTrainer, TrainerOptions } from './training/trainer-types.ts';

export interface EngineOptions {
  /** A Hugging Face directory of a dense Qwen3 model. */
  readonly modelPath: string;
  /** A chat template (Jinja) in place of the model's own. @default the model's own, where it has one */
  readonly chatTemplate?: string;
  /** Threads that compute, from 1 to 64. @default the machine's cores, at most 8 */
  readonly threads?: number;
  /** Longest sequence, in tokens. @default the model's own, or what fits the memory beside the model where that is less */
  readonly maxModelLen?: number;
  /** Room of each thread's key-value cache, in tokens; at least `maxModelLen`. 0: the engine only trains. @default its share of 64 MiB, at least maxModelLen */
  readonly cacheTokens?: number;
  /** Most requests that wait or run, from 1; beyond it `generate` rejects with EngineBusyError. @default 1024 */
  readonly maxPending?: number;
  /** Any integer: where the seeds of requests that bring none come from, in the order in which the requests come. @default 0, as vLLM's */
  readonly seed?: number;
  readonly signal: AbortSignal;
}

interface Sampling {
  /** In [0, 2]. Below 1e-5 the likeliest token is taken. */
  readonly temperature: number;
  /** In (0, 1]: the likeliest tokens that together have this probability may come. */
  readonly topP: number;
  /** So many likeliest tokens may come, and all that equal the last of them; -1 or 0: all. */
  readonly topK: number;
  /** In [0, 1]: share of the likeliest token's probability below which none may come. */
  readonly minP: number;
  /** Any integer. The same seed and request give the same tokens, whatever else runs; null takes the next of the engine's own. */
  readonly seed: number | null;
}

export interface GenerateRequest {
  /** [n], n ≥ 1, and n + 1 ≤ maxModelLen. */
  readonly prompt: Int32Array;
  /** A loaded adapter; null is the base. */
  readonly adapter: string | null;
  /** From 1. What does not fit maxModelLen is cut off silently, as vLLM does. */
  readonly maxTokens: number;
  readonly sampling: Sampling;
  readonly stop: {
    /** Text that ends the generation, wherever in a token it ends. */
    readonly strings: readonly string[];
    /** The matched string stays in the text. */
    readonly includeString: boolean;
    readonly tokenIds: readonly number[];
    /** Go on past the model's own end tokens. */
    readonly ignoreEnd: boolean;
    /** No end token and no stop before this many tokens; from 0 to `maxTokens`. */
    readonly minTokens: number;
  };
  /** Control tokens leave no text. @default true in vLLM */
  readonly skipSpecialTokens: boolean;
  /** Log-probs of the sampled tokens, and of so many likeliest ones beside, at most 20; null none. */
  readonly logProbs: number | null;
  /** The same for the tokens of the prompt, raw; the cache of prefixes is not read then. */
  readonly promptLogProbs: number | null;
  /** `raw`: of the model's own distribution. `processed`: of the one that was drawn from. */
  readonly logProbsMode: 'raw' | 'processed';
  /** Only these may be sampled; null all. Requests that bring the same list share it: it must not change afterwards. */
  readonly allowedTokenIds: readonly number[] | null;
  /** Prefixes are shared only among requests of one salt. */
  readonly cacheSalt: string | null;
  readonly signal: AbortSignal;
  /** Called after each step with what is new; text that may still turn out to be a stop string or half a character is held back. */
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
  /** Of each token, the sampled one first, then the likeliest; null where only the sampled one was asked for. */
  readonly alternatives: readonly (readonly TokenLogProb[])[] | null;
}

export interface Generation {
  /** Through the token that completed a stop string, stop and end tokens included. */
  readonly ids: Int32Array;
  /** Cut at the stop string. Bytes at its end that form no character yet are left out; a character that the prompt began is part of it. */
  readonly text: string;
  /** UTF-16 offset in the uncut text where each token's text begins, as vLLM's text_offset. [ids.length] */
  readonly textOffsets: Int32Array;
  /** Natural log. [ids.length]; empty unless asked for. */
  readonly logProbs: Float32Array;
  readonly alternatives: readonly (readonly TokenLogProb[])[] | null;
  /** Of each token of the prompt: itself first, then the likeliest; null for the first token. */
  readonly promptLogProbs: readonly (readonly TokenLogProb[] | null)[] | null;
  readonly finish: 'stop' | 'length';
  /** The stop string or token id; null for the model's end token and for `length`. */
  readonly stopReason: string | number | null;
  /** Tokens of the prompt that were in the cache. */
  readonly cachedTokens: number;
}

export interface LoadedAdapter {
  readonly name: string;
  readonly directory: string;
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
  /** Of the shared memory that is handed out. */
  readonly memoryBytes: number;
}

export interface Engine {
  readonly config: ModelConfig;
  readonly tokenizer: ModelTokenizer;
  readonly maxModelLen: number;
  /** For people: build of the kernels, threads, size. */
  readonly description: string;
  /** Resolves with the reason when a thread died; every call rejects with EngineLostError from then on. */
  readonly lost: Promise<Error>;
  /** Rejects with EngineInputError (nothing ran), EngineBusyError, CancelledError, NotFiniteError (the model gave NaN) or EngineLostError. */
  generate(request: GenerateRequest): Promise<Generation>;
  /**
   * Reads a PEFT directory. Rejects with EngineInputError where it is no LoRA of this model, a shape differs, a number is not finite, the name is taken, or nothing is
   * there (`code` tells which). The name serves once it resolves.
   */
  loadAdapter(adapter: { readonly name: string; readonly directory: string; readonly signal: AbortSignal }): Promise<LoadedAdapter>;
  /** New requests can't name it any more; running ones finish. False where there is none of that name. */
  unloadAdapter(name: string): boolean;
  /** Those that can be named, in the order in which they were loaded: the very objects that `loadAdapter` gave. */
  readonly adapters: readonly LoadedAdapter[];
  /** One trainer at a time. */
  createTrainer(options: TrainerOptions): Promise<EngineTrainer>;
  stats(): EngineStats;
  /** Running requests reject with CancelledError. */
  close(): Promise<void>;
}
