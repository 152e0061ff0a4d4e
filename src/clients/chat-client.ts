/**
 * A policy by messages, for evaluation: it gives no tokens and no log-probs. Leases, retries, limits, stop strings and remarks, over one or several servers that answer a
 * chat completion, whatever they speak themselves: an OpenAI-compatible API, or a model of the AI SDK.
 */
import { CancelledError, PolicyError, PromptTooLongError, TimeoutError } from '../core/errors.ts';
import type { ImageStore, Message } from '../core/message.ts';
import { Random } from '../core/random.ts';
import { afterClosedThoughts } from '../core/text-outside-thoughts.ts';
import { Limiter } from '../core/limiter.ts';
import type { RateLimit } from '../transport/rate-limit.ts';
import { withRetries } from '../transport/retry.ts';
import { readChat } from './openai-chat-reply.ts';
import { type ChatBody, chatBody } from './openai-chat-request.ts';
import { tooLong } from './openai-chat-window.ts';
import type { ChatLease, GenerateRequest, LeaseOptions, PolicyCapabilities, PolicyClient, PolicyRef, TextSample } from './policy-client.ts';
import type { PolicyVersions } from './policy-versions.ts';
import { PromptSize } from './prompt-size.ts';
import { RejectedFields } from './rejected-fields.ts';
import { RequestChangedError } from './request-changed.ts';

/** Answers chat completions. */
export interface ChatServer {
  /** Its address or its name, without secrets; for messages. */
  readonly url: string;
  /** Removes this server's credentials from a string. */
  readonly hide: (text: string) => string;
  readonly rateLimit: RateLimit;
  leases: number;
  /** It has returned a completion, so key, URL and model are right. */
  hasAnswered: boolean;
  /** The time at which a request last failed all its retries, in milliseconds since the epoch. */
  failedAtMs: number;
  /** The completion as OpenAI's API writes it. Throws PolicyError; RequestChangedError if the same request may be sent again at once. */
  complete(body: ChatBody, signal: AbortSignal): Promise<unknown>;
  close(): Promise<void>;
}

/** What a server shares with its client. */
export interface ChatServerParts {
  readonly rejected: RejectedFields;
  /** Says something of the server once, also in the summary of the run. */
  readonly remark: (remark: string) => void;
}

export interface ChatClientOptions {
  /** Determines the model name of each lease; owned by the run. */
  readonly versions: PolicyVersions;
  /** Provides the bytes of images; without it, messages may contain text only. @default none */
  readonly images?: ImageStore;
  /** The server can continue a final assistant message, as vLLM does. @default false */
  readonly takesPrefill?: boolean;
  /** The model's window in tokens. @default null, unknown */
  readonly maxModelLen?: number | null;
  /** Deadline of one attempt, in milliseconds. @default 600000 (the openai package) */
  readonly timeoutMs?: number;
  /** Attempts after the first. @default 3 */
  readonly maxRetries?: number;
  /** The longest wait for a server that limits the rate of requests, in milliseconds; 0 fails at once. @default that of the run, else 3600000 */
  readonly maxWaitMs?: number;
  /** Delay before the first retry, in milliseconds; doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Concurrent requests over all base URLs, at least 1; further ones wait. @default 256 */
  readonly maxConcurrentRequests?: number;
  /** The policy's name in results. @default the model of the current version */
  readonly name?: string;
  /** Ends the run with an error if the server does not say whether a stop string ended its text. @default false: the text is kept and counted */
  readonly strictStops?: boolean;
  /** Called once for each thing that the server made necessary, such as a field that it rejected. @default does nothing */
  readonly onRemark?: (remark: string) => void;
  /** Draws the jitter of retries. @default a fixed seed */
  readonly random?: Random;
}

/** After a request has failed all its retries, new trajectories avoid the server for this long. */
const REST_MS = 15_000;

export class ChatClient implements PolicyClient {
  readonly capabilities: PolicyCapabilities;
  readonly name: string;
  readonly #options: ChatClientOptions;
  readonly #limiter: Limiter;
  readonly #random: Random;
  readonly #servers: readonly ChatServer[];
  #isClosed = false;
  readonly #rejected = new RejectedFields();
  readonly #kept: string[] = [];
  readonly #said = new Set<string>();

  /** `open`: gives the servers of one model; a trajectory stays on one. */
  constructor(options: ChatClientOptions, open: (parts: ChatServerParts) => readonly ChatServer[]) {
    const { versions, maxModelLen = null, maxConcurrentRequests = 256 } = options;
    this.#options = options;
    this.#limiter = new Limiter(maxConcurrentRequests);
    this.#random = options.random ?? Random.fromSeed(0);
    this.#servers = open({ rejected: this.#rejected, remark: (remark) => this.#keepRemark(remark) });
    this.name = options.name ?? versions.current().model;
    this.capabilities = {
      kind: 'chat',
      maxModelLen,
      tokenizerHash: null,
      logProbsMode: 'none',
      toolCalls: 'structured',
      leavesOut: true,
      prefill: options.takesPrefill ?? false,
      images: options.images !== undefined,
    };
  }

  get remarks(): readonly string[] {
    return this.#kept;
  }

  /** Takes the healthy server with the fewest trajectories; if none is healthy, the one that failed longest ago. */
  async lease(signal: AbortSignal, { onWait, like }: LeaseOptions = {}): Promise<ChatLease> {
    if (signal.aborted) throw new CancelledError('Stopped before a lease was taken', { cause: signal.reason });
    if (this.#isClosed) throw new PolicyError('The client is closed');
    const healthy = this.#servers.filter((server) => Date.now() - server.failedAtMs >= REST_MS);
    const ranked =
      healthy.length > 0 ? healthy.toSorted((a, b) => a.leases - b.leases) : this.#servers.toSorted((a, b) => a.failedAtMs - b.failedAtMs);
    const server = ranked[0]!;
    const version = this.#options.versions.acquire(like?.policy);
    server.leases += 1;
    let isReleased = false;
    const size = new PromptSize(server.url);
    return {
      kind: 'chat',
      policy: version.ref,
      generate: async (request) => {
        const sample = await this.#generate(server, version.ref, { ...request, ...(onWait && { onWait }) });
        const hasThoughts = sample.reasoning !== undefined || afterClosedThoughts(sample.text) > 0;
        const remark = size.grow(sample.usage, { hasThoughts, messages: request.prompt.length });
        if (remark !== null) this.#keepRemark(remark);
        return sample;
      },
      [Symbol.asyncDispose]: async () => {
        if (isReleased) return;
        isReleased = true;
        server.leases -= 1;
        version.release();
      },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#servers.map((server) => server.close()));
  }

  async #generate(server: ChatServer, policy: PolicyRef, request: LeasedRequest): Promise<TextSample> {
    const { timeoutMs = 600_000, maxRetries = 3, baseDelayMs = 500, maxWaitMs } = this.#options;
    const attempt = (own: AbortSignal) => this.#complete(server, policy, request, own);
    const { signal, onWait } = request;
    const { rateLimit } = server;
    const retries = {
      signal,
      timeoutMs,
      maxRetries,
      baseDelayMs,
      random: this.#random,
      rateLimit,
      ...(onWait && { onWait }),
      ...(maxWaitMs !== undefined && { maxWaitMs }),
    };
    try {
      const sample = await this.#limiter.run(() => withRetries(attempt, retries), request.signal);
      server.failedAtMs = -Infinity;
      server.hasAnswered = true;
      this.#checkStop(sample, server);
      return sample;
    } catch (error) {
      if (error instanceof TimeoutError || (error instanceof PolicyError && error.retryable)) server.failedAtMs = Date.now();
      // Another server may succeed.
      if (error instanceof PolicyError && this.#servers.length > 1) error.isRetriedOut = false;
      throw error instanceof PromptTooLongError ? tooLong(error, request, this.capabilities.maxModelLen) : error;
    }
  }

  async #complete(server: ChatServer, policy: PolicyRef, request: GenerateRequest<readonly Message[]>, signal: AbortSignal): Promise<TextSample> {
    const { stop, dropsStop = false, maxNewTokens } = request;
    // Each turn of the loop leaves out at least one more field, or begins to ask for streams.
    for (;;) {
      const body = await chatBody(policy.model, request, { rejected: this.#rejected, images: this.#options.images ?? null });
      try {
        const answer = await server.complete(body, signal);
        return readChat(answer, { stop, sentStop: 'stop' in body, dropsStop, maxNewTokens, where: server.url, hide: server.hide });
      } catch (error) {
        if (!(error instanceof RequestChangedError)) throw error;
        this.#keepRemark(error.message);
      }
    }
  }

  /** Remarks on what the server does with stop strings. Throws PolicyError for a guess with `strictStops`. */
  #checkStop({ stopIsGuess = false, stopWasIgnored = false }: TextSample, { url }: ChatServer): void {
    if (stopWasIgnored) this.#remark(`${url} continues after a stop string; its texts are cut there.`);
    if (!stopIsGuess) return;
    const unknown = `${url} does not say which stop string ended its text`;
    if (this.#options.strictStops === true)
      throw new PolicyError(`${unknown}, and strict stops forbid a guess. ${NO_STOPS} needs none: the text is then cut here.`, {
        endsRun: true,
      });
    this.#remark(`${unknown}: it is put back where its tag is open (guessed_stops). ${NO_STOPS} needs no guess, at the cost of more tokens.`);
  }

  /** A remark that the summary repeats. */
  #keepRemark(remark: string): void {
    if (!this.#kept.includes(remark)) this.#kept.push(remark);
    this.#remark(remark);
  }

  #remark(remark: string): void {
    if (this.#said.has(remark)) return;
    this.#said.add(remark);
    this.#options.onRemark?.(remark);
  }
}

type LeasedRequest = GenerateRequest<readonly Message[]> & Pick<LeaseOptions, 'onWait'>;

const NO_STOPS = 'A request without stop strings (null for stop in the sampling)';
