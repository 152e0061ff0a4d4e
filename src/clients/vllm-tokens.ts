/**
 * A policy on one or several vLLM servers, token by token: prompts go out as ids, sampled ids and their log-probs come back, and nothing is
 * ever tokenised twice. A lease is one trajectory under one version on one server.
 */
import { CancelledError, ConfigError, PolicyError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import type {
  GenerateRequest,
  PolicyCapabilities,
  PolicyClient,
  PolicyRef,
  RenderNextOptions,
  RenderOptions,
  TokenLease,
  TokenSample,
} from './policy-client.ts';
import type { Message } from '../core/message.ts';
import type { EncodedText, PolicyTokenizer } from '../tokenizer/policy-tokenizer.ts';
import type { PolicyVersions } from './policy-versions.ts';
import { VllmServer, type VllmServerOptions } from './vllm-server.ts';
import { VllmTokenizer } from './vllm-tokenizer.ts';
import { completionFields, PromptBytes, readCompletion, windowError } from './vllm-tokens-wire.ts';

export interface VllmTokensOptions extends Omit<VllmServerOptions, 'baseUrl' | 'random'> {
  /** Replicas that serve the same model; a trajectory stays on one. */
  readonly baseUrls: readonly string[];
  /** Gives each lease its model name; owned by the run. */
  readonly versions: PolicyVersions;
  /** What `probePolicy` found. */
  readonly capabilities: Omit<PolicyCapabilities, 'kind'>;
  /** Null finds out with the first prompt. @default what `capabilities.chatTemplate` says */
  readonly hasChatTemplate?: boolean | null;
  /** The model's tokenizer on this machine: the servers are then asked for completions alone. @default the servers' */
  readonly tokenizer?: PolicyTokenizer;
  /** What to call the policy in results. @default the model of the current version */
  readonly name?: string;
  /** Jitter of retries. @default a fixed seed */
  readonly random?: Random;
  /**
   * Sends a seed with every generation, drawn from the lease's `random`: the same run then samples the same tokens, whatever the concurrency. For servers
   * that give a request with a seed the same tokens in any batch and at no cost, as the embedded engine does; vLLM becomes slow, its CPU build dies.
   * @default false
   */
  readonly sendsSeeds?: boolean;
  /** Ids are below it; null where the vocabulary is not known. @default null */
  readonly vocabularySize?: number | null;
  readonly onControlTokens?: (count: number) => void;
}

export class VllmTokensClient implements PolicyClient {
  readonly capabilities: PolicyCapabilities;
  readonly name: string;
  readonly #servers: readonly VllmServer[];
  readonly #vllmTokenizer: VllmTokenizer;
  readonly #tokenizer: PolicyTokenizer | null;
  readonly #versions: PolicyVersions;
  readonly #onControlTokens: (count: number) => void;
  readonly #sendsSeeds: boolean;
  readonly #vocabularySize: number | null;
  readonly #closed = new AbortController();
  #leases = 0;
  #controlTokens = 0;

  constructor(options: VllmTokensOptions) {
    const {
      baseUrls,
      versions,
      capabilities,
      hasChatTemplate = null,
      tokenizer = null,
      name,
      random = Random.fromSeed(0),
      sendsSeeds = false,
      vocabularySize = null,
      onControlTokens,
      ...server
    } = options;
    if (baseUrls.length === 0) throw new ConfigError('baseUrls is empty. Give the base URL of at least one vLLM server.');
    this.#servers = baseUrls.map((baseUrl, i) => new VllmServer({ ...server, baseUrl, random: random.fork(i), hasReplicas: baseUrls.length > 1 }));
    this.#tokenizer = tokenizer;
    this.#vllmTokenizer = new VllmTokenizer(tokenizerFacts(capabilities, hasChatTemplate));
    this.#versions = versions;
    this.capabilities = { ...capabilities, kind: 'tokens' };
    this.name = name ?? versions.current().model;
    this.#onControlTokens = onControlTokens ?? (() => {});
    this.#sendsSeeds = sendsSeeds;
    this.#vocabularySize = vocabularySize;
  }

  /** Control tokens that texts spelled and that were encoded in pieces, over all leases. */
  get controlTokensNeutralised(): number {
    return this.#controlTokens;
  }

  /** The server with the fewest trajectories among those that are well; where none is, the one that failed longest ago. */
  async lease(signal: AbortSignal, { random = null }: { readonly random?: Random | null } = {}): Promise<VllmLease> {
    if (signal.aborted) throw new CancelledError('Stopped before a lease was taken', { cause: signal.reason });
    if (this.#closed.signal.aborted) throw new PolicyError('The client is closed');
    const well = this.#servers.filter((server) => !server.isResting);
    const [server] = well.length > 0 ? well.toSorted((a, b) => a.leases - b.leases) : this.#servers.toSorted((a, b) => b.failedMsAgo - a.failedMsAgo);
    this.#leases += 1;
    const version = this.#versions.acquire();
    const call = { server: server!, model: version.ref.model, signal: this.#closed.signal };
    return new VllmLease({
      server: server!,
      tokenizer: this.#tokenizer ?? this.#vllmTokenizer.at(call),
      version,
      random: this.#sendsSeeds ? random : null,
      session: `vf-${process.pid}-${this.#leases}`,
      maxModelLen: this.capabilities.maxModelLen,
      vocabularySize: this.#vocabularySize,
      onControlTokens: (count) => {
        this.#controlTokens += count;
        this.#onControlTokens(count);
      },
    });
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.all(this.#servers.map((server) => server.close()));
  }
}

interface LeaseOptions {
  readonly server: VllmServer;
  readonly tokenizer: PolicyTokenizer;
  readonly version: { readonly ref: PolicyRef; release(): void };
  /** Where the seeds of generations come from; null sends none. */
  readonly random: Random | null;
  /** Lets a router in front of the replicas keep a trajectory together. */
  readonly session: string;
  readonly maxModelLen: number | null;
  readonly vocabularySize: number | null;
  readonly onControlTokens: (count: number) => void;
}

export class VllmLease implements TokenLease {
  readonly kind = 'tokens';
  readonly policy: PolicyRef;
  /** Control tokens that texts of this trajectory spelled and that were encoded in pieces. */
  controlTokensNeutralised = 0;
  readonly #options: LeaseOptions;
  readonly #prompt = new PromptBytes();
  /** Ends every turn of a conversation that the chat template rendered, whatever the server takes for the end; null sends none. */
  #closingToken: number | null = null;
  #isGenerating = false;
  #isReleased = false;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.policy = options.version.ref;
    options.server.leases += 1;
  }

  async render(messages: readonly Message[], options: RenderOptions = {}): Promise<Int32Array> {
    const { tokenizer } = this.#options;
    const ids = this.#counted(await tokenizer.render(messages, options));
    if (options.format !== 'continuation') this.#closingToken = await tokenizer.closingToken();
    return ids;
  }

  async renderNext(history: readonly Message[], next: readonly Message[], options: RenderNextOptions = {}): Promise<Int32Array> {
    return this.#counted(await this.#options.tokenizer.renderNext(history, next, options));
  }

  async encode(text: string): Promise<Int32Array> {
    return this.#counted(await this.#options.tokenizer.encode(text));
  }

  decode(ids: Int32Array): Promise<string> {
    return this.#options.tokenizer.decode(ids);
  }

  async generate(request: GenerateRequest<Int32Array>): Promise<TokenSample> {
    if (this.#isReleased || this.#isGenerating) {
      throw new PolicyError(
        `A lease takes one generation at a time, and none after its end; this one came ${this.#isReleased ? 'after its end' : 'during another'}`,
      );
    }
    this.#isGenerating = true;
    try {
      return await this.#generate(request);
    } finally {
      this.#isGenerating = false;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#options.server.leases -= 1;
    this.#options.version.release();
  }

  async #generate(request: GenerateRequest<Int32Array>): Promise<TokenSample> {
    const { server, session, random, maxModelLen, vocabularySize } = this.#options;
    const { prompt, stop, signal, cut = false } = request;
    this.#prompt.extendTo(prompt, cut);
    const maxNewTokens = this.#maxNewTokens(request);
    const fields = {
      ...completionFields(this.policy, { ...request, maxNewTokens }),
      ...(this.#closingToken === null ? {} : { stop_token_ids: [this.#closingToken] }),
    };
    const body = this.#prompt.body(random === null ? fields : { ...fields, seed: random.uint32() });
    const context = { prompt, prompted: this.#prompt, stop, maxNewTokens, vocabularySize, where: server.where('/v1/completions') };
    const read = (answer: Buffer) => readCompletion(answer, context);
    const headers = { 'x-session-id': session };
    const call = () => server.call({ path: '/v1/completions', body, headers, read, signal });
    return server.generations.run(call, signal).catch((error: unknown) => {
      throw windowError(error, { promptTokens: prompt.length, maxNewTokens, maxModelLen });
    });
  }

  /** vLLM's own default is 16 tokens, so that the room is always said. */
  #maxNewTokens({ maxNewTokens, prompt }: GenerateRequest<Int32Array>): number {
    const { maxModelLen } = this.#options;
    if (maxNewTokens !== null) return maxNewTokens;
    if (maxModelLen !== null) return Math.max(1, maxModelLen - prompt.length);
    throw new ConfigError('The server does not report the length of its window. Set the maximum tokens per generation.');
  }

  #counted({ ids, neutralised }: EncodedText): Int32Array {
    if (neutralised > 0) {
      this.controlTokensNeutralised += neutralised;
      this.#options.onControlTokens(neutralised);
    }
    // Cached ids are shared, and a caller may do with its own what it likes.
    return ids.slice();
  }
}

function tokenizerFacts({ chatTemplate, beginsWithBos, closingTokenId }: Omit<PolicyCapabilities, 'kind'>, hasChatTemplate: boolean | null) {
  return {
    hasTemplate: hasChatTemplate ?? (chatTemplate === undefined ? null : chatTemplate === 'model'),
    ...(beginsWithBos === undefined ? {} : { beginsWithBos }),
    ...(closingTokenId === undefined ? {} : { closingTokenId }),
  };
}
