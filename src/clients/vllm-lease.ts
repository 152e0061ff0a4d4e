/**
 * One trajectory of a vLLM policy under one version: renders, samples, and goes on at another replica if its own is down. Prompts with images go over vLLM's
 * generate route, all others over completions.
 */
import { ConfigError, PolicyError, type VfError } from '../core/errors.ts';
import type { ImageStore, Message, PlacedImage, RenderedTokens } from '../core/message.ts';
import type { Random } from '../core/random.ts';
import type { EncodedText, PolicyTokenizer } from '../tokenizer/policy-tokenizer.ts';
import type { GenerateRequest, ImageTokenRules, PolicyRef, RenderNextOptions, RenderOptions, TokenLease, TokenSample } from './policy-client.ts';
import type { ReplicaChoice } from './replica-choice.ts';
import {
  assertFewImages,
  CompactPrompt,
  contentParts,
  GENERATE_PATH,
  generationBody,
  generationFields,
  isCacheMiss,
  readGeneration,
} from './vllm-images.ts';
import type { VllmCall, VllmServer } from './vllm-server.ts';
import { type CompletionContext, completionFields, PromptBytes, readCompletion, windowError } from './vllm-tokens-wire.ts';

export interface VllmLeaseOptions {
  /** The server on which the trajectory begins. */
  readonly server: VllmServer;
  readonly places: ReplicaChoice;
  readonly tokenizerAt: (server: VllmServer) => PolicyTokenizer;
  readonly version: { readonly ref: PolicyRef; release(): void };
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
  readonly #prompt = new PromptBytes();
  readonly #compact = new CompactPrompt();
  /** The token that ends a turn in the chat template; sent as a stop token, because the server may not use it. Null sends none. */
  #closingToken: number | null = null;
  #isGenerating = false;
  #isReleased = false;

  constructor(options: VllmLeaseOptions) {
    this.#options = options;
    this.policy = options.version.ref;
    this.#server = options.server;
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
    const { places, session, random, maxModelLen, vocabularySize, imageTokens } = this.#options;
    const { prompt, stop, signal, likeliest = 0, cut = false, images = [] } = request;
    this.#prompt.extendTo(prompt, cut);
    if (images.length > 0) {
      assertFewImages(images, imageTokens);
      this.#compact.extendTo(prompt, images);
    }
    const maxNewTokens = this.#maxNewTokens(request);
    const fields = {
      ...completionFields(this.policy, { ...request, maxNewTokens }),
      ...(this.#closingToken === null ? {} : { stop_token_ids: [this.#closingToken] }),
    };
    const { seed = random?.uint32(), mustSeed = false } = request;
    const seeded = random === null && !mustSeed ? fields : { ...fields, seed };
    const context = { prompt, prompted: this.#prompt, stop, maxNewTokens, vocabularySize, likeliest };
    const headers = { 'x-session-id': session };
    const attempt = (server: VllmServer) => {
      const onAbandoned = () => places.abandon(server);
      const mayRetry = (error: VfError) => !places.isBetterElsewhere(server, error);
      return { headers, signal, mayRetry, onAbandoned };
    };
    const body = images.length === 0 ? this.#prompt.body(seeded) : null;
    const generation = () => {
      const server = this.#server;
      const call = () => {
        if (body === null) return this.#generateWithImages(server, { fields: seeded, images, context }, attempt(server));
        const read = (answer: Buffer) => readCompletion(answer, { ...context, where: server.where('/v1/completions') });
        return server.call({ path: '/v1/completions', body, read, ...attempt(server) });
      };
      return server.generations.run(call, signal);
    };
    return this.#anywhere(generation).catch((error: unknown) => {
      throw windowError(error, { promptTokens: prompt.length, maxNewTokens, maxModelLen });
    });
  }

  /** Names the images that the server has, and sends them all again if it has forgotten one. */
  async #generateWithImages(server: VllmServer, { fields, images, context }: PicturedRequest, attempt: Attempt): Promise<TokenSample> {
    const { images: store } = this.#options;
    const where = server.where(GENERATE_PATH);
    const send = async () => {
      const parts = await contentParts(images, { sent: server.images, store });
      const body = generationBody(generationFields(fields, this.policy), parts, this.#compact);
      const sample = await server.call({
        path: GENERATE_PATH,
        body,
        read: (answer) => readGeneration(answer, images, { ...context, where }),
        ...attempt,
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

interface PicturedRequest {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly images: readonly PlacedImage[];
  readonly context: Omit<CompletionContext, 'where'>;
}

/** The options that all attempts at a generation share. */
type Attempt = Pick<VllmCall<TokenSample>, 'headers' | 'signal' | 'mayRetry' | 'onAbandoned'>;
