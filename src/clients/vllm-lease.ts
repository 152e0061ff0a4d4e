/**
 * One trajectory of a vLLM policy under one version: renders, samples, and goes on at another replica if its own is down. Prompts with images go over vLLM's
 * generate route, all others over completions. In flight, each generation begins under the version that is then current, and goes over the generate route, which
 * says which weights sampled which token.
 */
import { ConfigError, PolicyError, type VfError } from '../core/errors.ts';
import type { ImageStore, Message, PlacedImage, RenderedTokens } from '../core/message.ts';
import type { Random } from '../core/random.ts';
import type { EncodedText, PolicyTokenizer } from '../tokenizer/policy-tokenizer.ts';
import type { GenerateRequest, ImageTokenRules, PolicyRef, RenderNextOptions, RenderOptions, TokenLease, TokenSample } from './policy-client.ts';
import type { PolicyVersions } from './policy-versions.ts';
import type { ReplicaChoice } from './replica-choice.ts';
import {
  assertFewImages,
  CompactPrompt,
  contentParts,
  GENERATE_PATH,
  generationBody,
  generationFields,
  isCacheMiss,
  type GenerationContext,
  readGeneration,
} from './vllm-images.ts';
import type { VllmServer } from './vllm-server.ts';
import { completionFields, PromptBytes, readCompletion, windowError } from './vllm-tokens-wire.ts';

export interface VllmLeaseOptions {
  /** The server on which the trajectory begins. */
  readonly server: VllmServer;
  readonly places: ReplicaChoice;
  readonly tokenizerAt: (server: VllmServer) => PolicyTokenizer;
  readonly version: { readonly ref: PolicyRef; release(): void };
  /** The versions of a policy in flight, and the replicas that have one of them. @default all of the trajectory is of one version */
  readonly inFlight?: { readonly versions: PolicyVersions; readonly placesOf: (model: string) => ReplicaChoice };
  /** Source of the generations' seeds; null sends none. */
  readonly random: Random | null;
  /** Lets a router in front of replicas send a whole trajectory to one of them. */
  readonly session: string;
  readonly maxModelLen: number | null;
  readonly images: ImageStore | null;
  readonly imageTokens: ImageTokenRules | null;
  readonly vocabularySize: number | null;
  readonly onControlTokens: (count: number) => void;
}

export class VllmLease implements TokenLease {
  readonly kind = 'tokens';
  readonly policy: PolicyRef;
  /** Number of spelled control tokens in this trajectory that were encoded as ordinary text. */
  controlTokensNeutralised = 0;
  readonly #options: VllmLeaseOptions;
  #server: VllmServer;
  #tokenizer: PolicyTokenizer;
  /** Those of the version that samples. */
  #places: ReplicaChoice;
  readonly #prompt = new PromptBytes();
  #compact = new CompactPrompt();
  /** The token that ends a turn in the chat template; sent as a stop token, because the server may not use it. Null sends none. */
  #closingToken: number | null = null;
  #isGenerating = false;
  #isReleased = false;

  constructor(options: VllmLeaseOptions) {
    this.#options = options;
    this.policy = options.version.ref;
    this.#server = options.server;
    this.#places = options.places;
    this.#tokenizer = options.tokenizerAt(options.server);
    options.server.leases += 1;
  }

  async render(messages: readonly Message[], options: RenderOptions = {}): Promise<RenderedTokens> {
    const rendered = this.#rendered(await this.#anywhere(() => this.#tokenizer.render(messages, options)));
    if (options.format !== 'continuation') this.#closingToken = await this.#anywhere(() => this.#tokenizer.closingToken());
    return rendered;
  }

  async renderNext(history: readonly Message[], next: readonly Message[], options: RenderNextOptions = {}): Promise<RenderedTokens> {
    return this.#rendered(await this.#anywhere(() => this.#tokenizer.renderNext(history, next, options)));
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
    const tried = new Set<VllmServer>();
    for (;;) {
      const server = this.#server;
      try {
        return await call();
      } catch (error) {
        tried.add(server);
        const next = this.#places.after(server, error, tried);
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
    const { random, maxModelLen, vocabularySize, imageTokens, inFlight } = this.#options;
    const { prompt, stop, signal, likeliest = 0, cut = false, images = [] } = request;
    this.#prompt.extendTo(prompt, cut);
    assertFewImages(images, imageTokens);
    const isCompact = images.length > 0 || inFlight !== undefined;
    if (cut) this.#compact = new CompactPrompt();
    if (isCompact) this.#compact.extendTo(prompt, images);
    const maxNewTokens = this.#maxNewTokens(request);
    const { seed = random?.uint32(), mustSeed = false } = request;
    const fieldsOf = (policy: PolicyRef) => ({
      ...completionFields(policy, { ...request, maxNewTokens }),
      ...(this.#closingToken === null ? {} : { stop_token_ids: [this.#closingToken] }),
      ...(random === null && !mustSeed ? {} : { seed }),
    });
    const context = { prompt, prompted: this.#prompt, stop, maxNewTokens, vocabularySize, likeliest };
    const body = isCompact ? null : this.#prompt.body(fieldsOf(this.policy));
    const generation = () => {
      const server = this.#server;
      const call = () => {
        if (inFlight !== undefined) return this.#generateInFlight(server, { fieldsOf, images, context, signal, ...inFlight });
        if (body === null) return this.#generateCompact(server, { policy: this.policy, fields: fieldsOf(this.policy), images, context, signal });
        const read = (answer: Buffer) => readCompletion(answer, { ...context, where: server.where('/v1/completions') });
        return server.call({ path: '/v1/completions', body, read, ...this.#attempt(server, signal) });
      };
      return server.generations.run(call, signal);
    };
    return this.#anywhere(generation).catch((error: unknown) => {
      throw windowError(error, { promptTokens: prompt.length, maxNewTokens, maxModelLen });
    });
  }

  /** The options that all attempts at a generation share. */
  #attempt(server: VllmServer, signal: AbortSignal) {
    const places = this.#places;
    const onAbandoned = () => places.abandon(server);
    const mayRetry = (error: VfError) => !places.isBetterElsewhere(server, error);
    return { headers: { 'x-session-id': this.#options.session }, signal, mayRetry, onAbandoned };
  }

  /** Under the version that is current now; its weights may change before the answer is there. */
  async #generateInFlight(server: VllmServer, { fieldsOf, versions, placesOf, context, ...asked }: GenerationInFlight): Promise<TokenSample> {
    const held = await versions.acquireInFlight(asked.signal);
    const { ref } = held;
    try {
      this.#places = placesOf(ref.model);
      return await this.#generateCompact(server, { ...asked, policy: ref, fields: fieldsOf(ref), context: { ...context, versions } });
    } finally {
      held.release();
    }
  }

  /** Names the images that the server has, and sends them all again if it has forgotten one. */
  async #generateCompact(server: VllmServer, { policy, fields, images, context, signal }: CompactRequest): Promise<TokenSample> {
    const { images: store } = this.#options;
    const where = server.where(GENERATE_PATH);
    const send = async () => {
      const parts = await contentParts(images, { sent: server.images, store });
      const body = generationBody(generationFields(fields, policy), parts, this.#compact);
      const sample = await server.call({
        path: GENERATE_PATH,
        body,
        read: (answer) => readGeneration(answer, images, { ...context, where }),
        ...this.#attempt(server, signal),
      });
      server.images.add(images);
      return sample;
    };
    try {
      return await send();
    } catch (error) {
      if (!isCacheMiss(error)) throw error;
      server.images.forget(images);
      return send();
    }
  }

  /** Always explicit, because vLLM's default is 16 tokens. */
  #maxNewTokens({ maxNewTokens, prompt }: GenerateRequest<Int32Array>): number {
    const { maxModelLen } = this.#options;
    if (maxNewTokens !== null) return maxNewTokens;
    if (maxModelLen !== null) return Math.max(1, maxModelLen - prompt.length);
    throw new ConfigError('The server does not report the length of its window. Set a maximum number of tokens per generation.');
  }

  #rendered(encoded: EncodedText): RenderedTokens {
    const { images = [], opening } = encoded;
    return { ids: this.#counted(encoded), images, ...(opening === undefined ? {} : { opening }) };
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

interface CompactRequest {
  readonly policy: PolicyRef;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly images: readonly PlacedImage[];
  readonly context: Omit<GenerationContext, 'where'>;
  readonly signal: AbortSignal;
}

interface GenerationInFlight extends Omit<CompactRequest, 'policy' | 'fields'> {
  readonly fieldsOf: (policy: PolicyRef) => Readonly<Record<string, unknown>>;
  readonly versions: PolicyVersions;
  readonly placesOf: (model: string) => ReplicaChoice;
}
