/** The engine as the routes see it: models by name, prompts as tokens, generations that end when their client leaves. */
import { CancelledError } from '../../core/errors.ts';
import type { Engine, GenerateRequest, Generation, GenerationDelta } from '../../engine/engine-types.ts';
import { NotFiniteError } from '../../engine/engine-errors.ts';
import { PolicyMetrics } from './policy-metrics.ts';
import { PolicyRefusal, valueRefusal } from './policy-refusal.ts';
import type { SamplingDefaults } from './sampling-defaults.ts';
import { TokenStrings } from './token-strings.ts';

export interface PolicyLimits {
  /** @default 16 MiB */
  readonly maxBodyBytes: number;
  /** How long a body may take to arrive. @default 30000 */
  readonly bodyTimeoutMs: number;
  /** Prompts × n of one request. @default 1024, or as many as the engine takes at once where that is less */
  readonly maxChoices: number;
  /** Characters of one text that is tokenised, which takes seconds for so many. @default 524288 */
  readonly maxTextLength: number;
  /** @default 512, vLLM's largest --max-lora-rank */
  readonly maxLoraRank: number;
  /** Loaded at a time. @default 64 */
  readonly maxAdapters: number;
}

/** One sequence to generate. */
export type GenerationJob = Omit<GenerateRequest, 'signal' | 'onProgress'>;

export interface GenerateOptions {
  /** Aborts when nobody waits for the answer any more. */
  readonly client: AbortSignal;
  /** What is new of a job, by its index. */
  readonly onProgress?: (index: number, delta: GenerationDelta) => void;
  /** Once for each job that ends well, before the whole does. */
  readonly onEnd?: (index: number, generation: Generation) => void;
}

export interface ServedModel {
  /** Null is the base. */
  readonly adapter: string | null;
  /** As clients call it. */
  readonly name: string;
}

export interface ServedEngineOptions {
  readonly engine: Engine;
  readonly servedName: string;
  readonly logProbsMode: 'raw' | 'processed';
  readonly defaults: SamplingDefaults;
  readonly limits: PolicyLimits;
  readonly version: string;
  readonly onFailure: (error: unknown) => void;
}

export class ServedEngine {
  readonly options: ServedEngineOptions;
  readonly engine: Engine;
  readonly metrics = new PolicyMetrics();
  readonly strings: TokenStrings;
  /** Unix time in seconds. */
  readonly startedAt = Math.floor(Date.now() / 1000);
  #lost: Error | null = null;
  #cacheEpoch = 0;
  #requests = 0;

  constructor(options: ServedEngineOptions) {
    this.options = options;
    this.engine = options.engine;
    this.strings = new TokenStrings(options.engine.tokenizer);
    void options.engine.lost.then((reason) => (this.#lost = reason));
  }

  /** Why the engine is gone; null while it is there. */
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

  /** Tells whoever looks after the server, where it is to blame. */
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

  /** Throws where a text is longer than tokenising may take; nobody else is served meanwhile. */
  checkTextLength(length: number): void {
    const { maxTextLength } = this.options.limits;
    if (length <= maxTextLength) return;
    throw new PolicyRefusal(400, `Expected at most ${maxTextLength} characters in one text, got ${length}; send token ids, or less text at a time`);
  }

  encode(text: string, { addSpecialTokens }: { readonly addSpecialTokens: boolean }): Int32Array {
    this.checkTextLength(text.length);
    if (!text.isWellFormed()) throw new PolicyRefusal(400, 'Expected text of whole characters, got a lone surrogate');
    return this.engine.tokenizer.encode(text, { addSpecialTokens });
  }

  decode(ids: Int32Array): string {
    return ids.length === 0 ? '' : this.engine.tokenizer.decode(ids, { skipSpecialTokens: false });
  }

  /** Throws where a prompt cannot be continued by at least one token. */
  checkPrompt(ids: Int32Array): void {
    const { maxModelLen, config } = this.engine;
    if (ids.length === 0) throw new PolicyRefusal(400, 'The decoder prompt cannot be empty', { param: 'prompt' });
    const stranger = ids.find((id) => id >= config.vocabularySize);
    if (stranger !== undefined) throw new PolicyRefusal(400, `Token id ${stranger} is out of vocabulary`);
    if (ids.length > maxModelLen) {
      const remedy = 'Please reduce the length of the input prompt.';
      const message = `This model's maximum context length is ${maxModelLen} tokens. However, your prompt contains ${ids.length} input tokens, which exceeds this limit even without any output tokens. ${remedy}`;
      throw valueRefusal('input_tokens', message, ids.length);
    }
    if (ids.length === maxModelLen) throw valueRefusal('max_tokens', 'max_tokens must be at least 1, got 0.', 0);
  }

  /** A salt that keeps what was cached before the last reset out of reach. */
  cacheSalt(asked: string | null): string | null {
    if (asked === null) return this.#cacheEpoch === 0 ? null : String(this.#cacheEpoch);
    return `${this.#cacheEpoch}:${asked}`;
  }

  /** No request from now on finds a prefix that was cached before. */
  resetPrefixCache(): void {
    this.#cacheEpoch += 1;
  }

  /**
   * All of them or none: the first failure ends the others. So does `client`. Rejects with what the engine rejects with.
   */
  async generate(jobs: readonly GenerationJob[], { client, onProgress, onEnd }: GenerateOptions): Promise<Generation[]> {
    const stop = new AbortController();
    const leave = () => stop.abort(new CancelledError('The client has left'));
    if (client.aborted) leave();
    client.addEventListener('abort', leave, { once: true });
    try {
      const running = jobs.map(async (job, i) => {
        const generation = await this.#generateOne(job, stop.signal, onProgress && ((delta) => onProgress(i, delta)));
        onEnd?.(i, generation);
        return generation;
      });
      // The others must have ended too before their caller goes on.
      for (const one of running) one.catch((error: unknown) => stop.abort(error));
      const ended = await Promise.allSettled(running);
      const failed = ended.filter((outcome) => outcome.status === 'rejected').map((outcome) => outcome.reason as unknown);
      if (failed.length > 0) throw failed.find((error) => !(error instanceof CancelledError)) ?? failed[0];
      return await Promise.all(running);
    } finally {
      client.removeEventListener('abort', leave);
    }
  }

  async #generateOne(job: GenerationJob, signal: AbortSignal, onProgress?: (delta: GenerationDelta) => void): Promise<Generation> {
    const startedAt = performance.now();
    const secondsPassed = () => (performance.now() - startedAt) / 1000;
    const end = this.metrics.begin(job.adapter);
    let isFirst = true;
    const hear = (delta: GenerationDelta) => {
      if (isFirst) this.metrics.firstToken.observe(secondsPassed());
      isFirst = false;
      onProgress?.(delta);
    };
    try {
      const generation = await this.engine.generate({ ...job, signal, ...(onProgress === undefined ? {} : { onProgress: hear }) });
      checkNumbers(generation);
      this.metrics.latency.observe(secondsPassed());
      return generation;
    } finally {
      end();
    }
  }
}

/** JSON would turn a NaN into null, and a client might read over it. */
function checkNumbers({ logProbs, promptLogProbs }: Generation): void {
  const isWrong = (value: number) => Number.isNaN(value) || value === Infinity;
  const isBad = logProbs.some(isWrong) || promptLogProbs?.some((tokens) => tokens?.some(({ logProb }) => isWrong(logProb)));
  if (isBad === true) throw new NotFiniteError('Expected log-probs that are numbers from the model, got NaN or Infinity');
}
