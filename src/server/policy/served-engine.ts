/** The routes' view of the engine: models by name, prompts as tokens, generations that end when their client disconnects. */
import { onAbort } from '../../core/abort.ts';
import { CancelledError } from '../../core/errors.ts';
import type { GenerateRequest, Generation, GenerationDelta, TokenEngine } from '../../engine/engine-types.ts';
import { NotFiniteError } from '../../engine/engine-errors.ts';
import { HeldBytes } from '../held-bytes.ts';
import { PolicyMetrics } from './policy-metrics.ts';
import { PolicyRefusal, valueRefusal } from './policy-refusal.ts';
import type { SamplingDefaults } from './sampling-defaults.ts';
import { TokenStrings } from './token-strings.ts';
import { countText } from '../../core/count-text.ts';

export interface PolicyLimits {
  /** @default 16 MiB */
  readonly maxBodyBytes: number;
  /** The time that a body may take to arrive, in milliseconds. @default 30000 */
  readonly bodyTimeoutMs: number;
  /** Maximum of prompts × n in one request. @default 1024, or the engine's maxPending if that is less */
  readonly maxChoices: number;
  /** Maximum of log-probs in one answer, those of prompts and alternatives included. @default 1048576: 1,024 choices of 1,024 tokens */
  readonly maxLogProbs: number;
  /** Maximum of characters in one string to tokenise; this many take seconds. @default 524288 */
  readonly maxTextLength: number;
  /** @default 512, vLLM's largest --max-lora-rank */
  readonly maxLoraRank: number;
  /** Maximum of loaded adapters. @default 64 */
  readonly maxAdapters: number;
}

/** Requests with as many log-probs as one may have that may run at once. */
const LARGEST_AT_ONCE = 8;

/** One sequence to generate. */
export type GenerationJob = Omit<GenerateRequest, 'signal' | 'onProgress'>;

export interface GenerateOptions {
  /** Aborts when the client disconnects. */
  readonly client: AbortSignal;
  /** Called with a job's index and new tokens. */
  readonly onProgress?: (index: number, delta: GenerationDelta) => void;
  /** Called once per successful job, before `generate` resolves. */
  readonly onEnd?: (index: number, generation: Generation) => void;
}

export interface ServedModel {
  /** Null is the base model. */
  readonly adapter: string | null;
  /** The model's name for clients. */
  readonly name: string;
}

export interface ServedEngineOptions {
  readonly engine: TokenEngine;
  readonly servedName: string;
  readonly logProbsMode: 'raw' | 'processed';
  readonly defaults: SamplingDefaults;
  readonly limits: PolicyLimits;
  readonly version: string;
  readonly onFailure: (error: unknown) => void;
}

export class ServedEngine {
  readonly options: ServedEngineOptions;
  readonly engine: TokenEngine;
  readonly metrics = new PolicyMetrics();
  /** The account of streamed events that no client has read yet. */
  readonly unreadEvents = new HeldBytes();
  readonly strings: TokenStrings;
  /** Unix time in seconds. */
  readonly startedAt = Math.floor(Date.now() / 1000);
  #lost: Error | null = null;
  #cacheEpoch = 0;
  #requests = 0;
  /** Those that running requests may come to keep as objects. */
  #logProbs = 0;

  constructor(options: ServedEngineOptions) {
    this.options = options;
    this.engine = options.engine;
    this.strings = new TokenStrings(options.engine.tokenizer);
    void options.engine.lost.then((reason) => (this.#lost = reason));
  }

  /** The reason why the engine died; null while it lives. */
  get lost(): Error | null {
    return this.#lost;
  }

  /** Throws the 404 that clients of vLLM expect. */
  model(name: string | null): ServedModel {
    const { servedName } = this.options;
    if (name === null || name === '' || name === servedName) return { adapter: null, name: servedName };
    if (this.engine.adapters.some((adapter) => adapter.name === name)) return { adapter: name, name };
    throw new PolicyRefusal(404, `The model \`${name}\` does not exist. Valid aliases: ${servedName}.`, { param: 'model' });
  }

  /** Reports faults of the server to `onFailure`. */
  report(refusal: PolicyRefusal): void {
    if (refusal.isFailure) this.options.onFailure(refusal.cause ?? refusal);
  }

  get fingerprint(): string {
    return `vf-search-${this.options.version}`;
  }

  /** Unique to this server; vLLM's are random. */
  requestId(asked: string | null): string {
    this.#requests += 1;
    return (
      asked ?? `${this.startedAt.toString(16)}${(process.pid % 0x10000).toString(16).padStart(4, '0')}${this.#requests.toString(16).padStart(6, '0')}`
    );
  }

  /** Throws if a string is too long to tokenise; no other request is served meanwhile. */
  checkTextLength(length: number): void {
    const { maxTextLength } = this.options.limits;
    if (length <= maxTextLength) return;
    throw new PolicyRefusal(
      400,
      `A prompt may have at most ${countText(maxTextLength)} characters, got ${countText(length)}; send token ids, or less text at a time`,
    );
  }

  encode(text: string, { addSpecialTokens }: { readonly addSpecialTokens: boolean }): Int32Array {
    this.checkTextLength(text.length);
    if (!text.isWellFormed()) throw new PolicyRefusal(400, 'The prompt contains a lone surrogate, which is not a valid character');
    return this.engine.tokenizer.encode(text, { addSpecialTokens });
  }

  decode(ids: Int32Array): string {
    return ids.length === 0 ? '' : this.engine.tokenizer.decode(ids, { skipSpecialTokens: false });
  }

  /** Throws if a prompt is invalid or leaves no room for a token. */
  checkPrompt(ids: Int32Array): void {
    const { maxModelLen, config } = this.engine;
    if (ids.length === 0) throw new PolicyRefusal(400, 'The decoder prompt cannot be empty', { param: 'prompt' });
    const unknown = ids.find((id) => id >= config.vocabularySize);
    if (unknown !== undefined) throw new PolicyRefusal(400, `Token id ${unknown} is out of vocabulary`);
    if (ids.length > maxModelLen) {
      const remedy = 'Please reduce the length of the input prompt.';
      const message = `This model's maximum context length is ${maxModelLen} tokens. However, your prompt contains ${ids.length} input tokens, which exceeds this limit even without any output tokens. ${remedy}`;
      throw valueRefusal('input_tokens', message, ids.length);
    }
    if (ids.length === maxModelLen) throw valueRefusal('max_tokens', 'max_tokens must be at least 1, got 0.', 0);
  }

  /** A salt that excludes everything cached before the last reset. */
  cacheSalt(asked: string | null): string | null {
    if (asked === null) return this.#cacheEpoch === 0 ? null : String(this.#cacheEpoch);
    return `${this.#cacheEpoch}:${asked}`;
  }

  /** Later requests do not use prefixes cached before this call. */
  resetPrefixCache(): void {
    this.#cacheEpoch += 1;
  }

  /**
   * Resolves with all generations, or rejects with the engine's error: the first failure ends the others, and so does `client`.
   */
  async generate(jobs: readonly GenerationJob[], options: GenerateOptions): Promise<Generation[]> {
    using _ = this.#holdLogProbs(jobs);
    return await this.#generateAll(jobs, options);
  }

  async #generateAll(jobs: readonly GenerationJob[], { client, onProgress, onEnd }: GenerateOptions): Promise<Generation[]> {
    const stop = new AbortController();
    using _ = onAbort(client, () => stop.abort(new CancelledError('The client disconnected')));
    const running = jobs.map(async (job, i) => {
      const generation = await this.#generateOne(job, stop.signal, onProgress && ((delta) => onProgress(i, delta)));
      onEnd?.(i, generation);
      return generation;
    });
    // Wait until the others have ended too.
    for (const one of running) one.catch((error: unknown) => stop.abort(error));
    const ended = await Promise.allSettled(running);
    const failed = ended.filter((outcome) => outcome.status === 'rejected').map((outcome) => outcome.reason as unknown);
    if (failed.length > 0) throw failed.find((error) => !(error instanceof CancelledError)) ?? failed[0];
    return await Promise.all(running);
  }

  /** Counts them until disposed. Throws a retryable refusal if there is no room for them. */
  #holdLogProbs(jobs: readonly GenerationJob[]): Disposable {
    const count = jobs.reduce((sum, job) => sum + keptLogProbs(job), 0);
    if (count > 0 && this.#logProbs + count > LARGEST_AT_ONCE * this.options.limits.maxLogProbs)
      throw new PolicyRefusal(503, 'The log-probs of running requests exceed the memory limit; try again later', { retryable: true });
    this.#logProbs += count;
    return { [Symbol.dispose]: () => void (this.#logProbs -= count) };
  }

  async #generateOne(job: GenerationJob, signal: AbortSignal, onProgress?: (delta: GenerationDelta) => void): Promise<Generation> {
    const startedAt = performance.now();
    const secondsPassed = () => (performance.now() - startedAt) / 1000;
    const end = this.metrics.begin(job.adapter);
    let isFirst = true;
    const notify = (delta: GenerationDelta) => {
      if (isFirst) this.metrics.firstToken.observe(secondsPassed());
      isFirst = false;
      onProgress?.(delta);
    };
    try {
      const generation = await this.engine.generate({ ...job, signal, ...(onProgress === undefined ? {} : { onProgress: notify }) });
      checkNumbers(generation);
      this.metrics.latency.observe(secondsPassed());
      return generation;
    } finally {
      end();
    }
  }
}

/** At most, of prompts and alternatives. The log-probs of the sampled tokens themselves are numbers of 4 bytes. */
function keptLogProbs({ prompt, maxTokens, logProbs, promptLogProbs }: GenerationJob): number {
  return (promptLogProbs === null ? 0 : prompt.length * (1 + promptLogProbs)) + maxTokens * (logProbs ?? 0);
}

/** JSON would turn a NaN into null, which a client might overlook. */
function checkNumbers({ logProbs, promptLogProbs }: Generation): void {
  const isWrong = (value: number) => Number.isNaN(value) || value === Infinity;
  const isBad = logProbs.some(isWrong) || promptLogProbs?.some((tokens) => tokens?.some(({ logProb }) => isWrong(logProb)));
  if (isBad === true) throw new NotFiniteError('the model computed a log-prob that is NaN or Infinity');
}
