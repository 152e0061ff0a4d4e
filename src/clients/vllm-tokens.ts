/**
 * A policy on one or several vLLM servers by token ids: prompts are sent as ids, sampled ids and their log-probs come back, and sampled text is never
 * tokenised again. A lease is one trajectory under one version on one server.
 */
import { CancelledError, ConfigError, PolicyError, type VfError } from '../core/errors.ts';
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
import { ReplicaChoice } from './replica-choice.ts';
import { VllmServer, type VllmServerOptions } from './vllm-server.ts';
import { VllmTokenizer } from './vllm-tokenizer.ts';
import { completionFields, PromptBytes, readCompletion, windowError } from './vllm-tokens-wire.ts';

export interface VllmTokensOptions extends Omit<VllmServerOptions, 'baseUrl' | 'random'> {
  /** With or without `/v1`. Several URLs are replicas of one model; a trajectory stays on one. */
  readonly baseUrls: readonly string[];
  /** Determines the model name of each lease; owned by the run. */
  readonly versions: PolicyVersions;
  /** The result of `probePolicy`. */
  readonly capabilities: Omit<PolicyCapabilities, 'kind'>;
  /** Null finds out at the first prompt. @default derived from `capabilities.chatTemplate` */
  readonly hasChatTemplate?: boolean | null;
  /** The model's tokenizer on this machine; the servers are then used for completions only. @default the servers' */
  readonly tokenizer?: PolicyTokenizer;
  /** The policy's name in results. @default the model of the current version */
  readonly name?: string;
  /** Source of the jitter of retries. @default a fixed seed */
  readonly random?: Random;
  /**
   * Sends a seed with every generation, drawn from the lease's `random`, so that a run samples the same tokens at any concurrency. Only for servers
   * whose seeded samples do not depend on the batch, such as the embedded engine; seeds slow down vLLM and crash its CPU build.
   * @default false
   */
  readonly sendsSeeds?: boolean;
  /** Number of ids in the vocabulary; a sampled id beyond it is an error. @default null, unknown */
  readonly vocabularySize?: number | null;
  /** Called with the number of spelled control tokens in the text that were encoded as ordinary text. */
  readonly onControlTokens?: (count: number) => void;
}

/**
 * A trainable policy. The constructor throws ConfigError if `baseUrls` is empty or has a malformed URL.
 * @example
 * const { kind, ...capabilities } = await probePolicy({ baseUrl, model: null, signal });
 * const versions = new PolicyVersions({ version: 0, model: capabilities.model });
 * const client = new VllmTokensClient({ baseUrls: [baseUrl], versions, capabilities });
 */
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
    if (baseUrls.length === 0) throw new ConfigError('baseUrls is empty. Pass the base URL of at least one vLLM server.');
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

  /** Number of spelled control tokens that were encoded as ordinary text, over all leases. */
  get controlTokensNeutralised(): number {
    return this.#controlTokens;
  }

  /**
   * Takes the healthy replica with the fewest trajectories among those that have the current version; if none is healthy, the one that failed longest
   * ago. If a replica fails, its trajectories go on at another one that has their version. Throws PolicyError if none has it.
   */
  async lease(signal: AbortSignal, { random = null }: { readonly random?: Random | null } = {}): Promise<VllmLease> {
    if (signal.aborted) throw new CancelledError('Stopped before a lease was taken', { cause: signal.reason });
    if (this.#closed.signal.aborted) throw new PolicyError('The client is closed');
    const { replicas } = this.#versions;
    const { model } = this.#versions.current();
    const places = new ReplicaChoice({ servers: this.#servers, replicas, model });
    const server = places.first();
    this.#leases += 1;
    const version = this.#versions.acquire();
    return new VllmLease({
      server,
      places,
      tokenizerAt: (at) => this.#tokenizer ?? this.#vllmTokenizer.at({ server: at, model, signal: this.#closed.signal }),
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
  /** Where the trajectory begins. */
  readonly server: VllmServer;
  readonly places: ReplicaChoice;
  readonly tokenizerAt: (server: VllmServer) => PolicyTokenizer;
  readonly version: { readonly ref: PolicyRef; release(): void };
  /** Source of the generations' seeds; null sends none. */
  readonly random: Random | null;
  /** Lets a router in front of replicas send a whole trajectory to one of them. */
  readonly session: string;
  readonly maxModelLen: number | null;
  readonly vocabularySize: number | null;
  readonly onControlTokens: (count: number) => void;
}

export class VllmLease implements TokenLease {
  readonly kind = 'tokens';
  readonly policy: PolicyRef;
  /** Number of spelled control tokens in this trajectory that were encoded as ordinary text. */
  controlTokensNeutralised = 0;
  readonly #options: LeaseOptions;
  #server: VllmServer;
  #tokenizer: PolicyTokenizer;
  readonly #prompt = new PromptBytes();
  /** The token that ends a turn in the chat template; sent as a stop token, because the server may not use it. Null sends none. */
  #closingToken: number | null = null;
  #isGenerating = false;
  #isReleased = false;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.policy = options.version.ref;
    this.#server = options.server;
    this.#tokenizer = options.tokenizerAt(options.server);
    options.server.leases += 1;
  }

  async render(messages: readonly Message[], options: RenderOptions = {}): Promise<Int32Array> {
    const ids = this.#counted(await this.#anywhere(() => this.#tokenizer.render(messages, options)));
    if (options.format !== 'continuation') this.#closingToken = await this.#anywhere(() => this.#tokenizer.closingToken());
    return ids;
  }

  async renderNext(history: readonly Message[], next: readonly Message[], options: RenderNextOptions = {}): Promise<Int32Array> {
    return this.#counted(await this.#anywhere(() => this.#tokenizer.renderNext(history, next, options)));
  }

  async encode(text: string): Promise<Int32Array> {
    return this.#counted(await this.#anywhere(() => this.#tokenizer.encode(text)));
  }

  decode(ids: Int32Array): Promise<string> {
    return this.#anywhere(() => this.#tokenizer.decode(ids));
  }

  async generate(request: GenerateRequest<Int32Array>): Promise<TokenSample> {
    if (this.#isReleased || this.#isGenerating) {
      throw new PolicyError(
        this.#isReleased
          ? 'The lease was disposed, so it cannot generate. Take a new lease.'
          : 'The lease is generating already. Await that generation before the next one.',
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
    this.#server.leases -= 1;
    this.#options.version.release();
  }

  /** Calls at this lease's replica; if that is down, at the others that have the version, one after the other. */
  async #anywhere<T>(call: () => Promise<T>): Promise<T> {
    const { places } = this.#options;
    const tried = new Set<VllmServer>();
    for (;;) {
      const server = this.#server;
      try {
        return await call();
      } catch (error) {
        tried.add(server);
        const next = places.after(server, error, tried);
        if (next === null || this.#isReleased) throw error;
        this.#moveTo(next);
      }
    }
  }

  #moveTo(server: VllmServer): void {
    this.#server.leases -= 1;
    server.leases += 1;
    this.#server = server;
    this.#tokenizer = this.#options.tokenizerAt(server);
  }

  async #generate(request: GenerateRequest<Int32Array>): Promise<TokenSample> {
    const { places, session, random, maxModelLen, vocabularySize } = this.#options;
    const { prompt, stop, signal, cut = false } = request;
    this.#prompt.extendTo(prompt, cut);
    const maxNewTokens = this.#maxNewTokens(request);
    const fields = {
      ...completionFields(this.policy, { ...request, maxNewTokens }),
      ...(this.#closingToken === null ? {} : { stop_token_ids: [this.#closingToken] }),
    };
    const body = this.#prompt.body(random === null ? fields : { ...fields, seed: random.uint32() });
    const context = { prompt, prompted: this.#prompt, stop, maxNewTokens, vocabularySize };
    const headers = { 'x-session-id': session };
    const generation = () => {
      const server = this.#server;
      const read = (answer: Buffer) => readCompletion(answer, { ...context, where: server.where('/v1/completions') });
      const onAbandoned = () => places.abandon(server);
      const mayRetry = (error: VfError) => !places.isBetterElsewhere(server, error);
      const call = () => server.call({ path: '/v1/completions', body, headers, read, signal, mayRetry, onAbandoned });
      return server.generations.run(call, signal);
    };
    return this.#anywhere(generation).catch((error: unknown) => {
      throw windowError(error, { promptTokens: prompt.length, maxNewTokens, maxModelLen });
    });
  }

  /** Always explicit, because vLLM's default is 16 tokens. */
  #maxNewTokens({ maxNewTokens, prompt }: GenerateRequest<Int32Array>): number {
    const { maxModelLen } = this.#options;
    if (maxNewTokens !== null) return maxNewTokens;
    if (maxModelLen !== null) return Math.max(1, maxModelLen - prompt.length);
    throw new ConfigError('The server does not report the length of its window. Set a maximum number of tokens per generation.');
  }

  #counted({ ids, neutralised }: EncodedText): Int32Array {
    if (neutralised > 0) {
      this.controlTokensNeutralised += neutralised;
      this.#options.onControlTokens(neutralised);
    }
    // Cached ids are shared, and a caller may change its array.
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
