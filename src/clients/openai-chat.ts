/**
 * A policy behind any OpenAI-compatible chat API, through the `openai` package (imported at the first request). It gives no tokens and no
 * log-probs, so it cannot be trained. The transport handles retries, deadlines, limits and sockets; the package's own are off.
 */
import type OpenAI from 'openai';
import { CancelledError, ConfigError, PolicyError, PromptTooLongError, TimeoutError, VfError } from '../core/errors.ts';
import type { ImageStore, Message } from '../core/message.ts';
import { Random } from '../core/random.ts';
import { withoutExcerpt } from '../core/read-json.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse } from '../transport/http-endpoint.ts';
import { Limiter } from '../core/limiter.ts';
import type { RateLimit } from '../transport/rate-limit.ts';
import { withRetries } from '../transport/retry.ts';
import { type ChatBody, chatBody, type ChatSample, type LimitField, readChat, refusesMaxTokens } from './openai-chat-wire.ts';
import { chatBodyError, chatError, mayReportError } from './chat-failure.ts';
import { tooLong } from './openai-chat-window.ts';
import type { ChatLease, GenerateRequest, PolicyCapabilities, PolicyClient, PolicyRef, TextSample } from './policy-client.ts';
import type { PolicyVersions } from './policy-versions.ts';

export interface OpenAIChatOptions {
  /** With the version in the path: `https://api.openai.com/v1`. Several URLs are replicas of one model; a trajectory stays on one. */
  readonly baseUrls: readonly string[];
  /** Determines the model name of each lease; owned by the run. */
  readonly versions: PolicyVersions;
  /** Sent as a bearer token. @default none */
  readonly apiKey?: string;
  /** The environment variable that contains the key, for error messages. @default none */
  readonly apiKeyVariable?: string;
  /** Sent with every request; they override the default headers. */
  readonly headers?: Readonly<Record<string, string>>;
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
  /** Delay before the first retry, in milliseconds; doubles with each further one. @default 500 */
  readonly baseDelayMs?: number;
  /** Concurrent requests over all base URLs, at least 1; further ones wait. @default 256 */
  readonly maxConcurrentRequests?: number;
  /** The policy's name in results. @default the model of the current version */
  readonly name?: string;
  /** Draws the jitter of retries. @default a fixed seed */
  readonly random?: Random;
}

/** After a request has failed all its retries, new trajectories avoid the replica for this long. */
const REST_MS = 15_000;

/**
 * A chat policy for evaluation. The constructor throws ConfigError if `baseUrls` is empty or has a malformed URL.
 * @example
 * new OpenAIChatClient({ baseUrls: ['https://api.openai.com/v1'], versions: new PolicyVersions({ version: 0, model: 'gpt-4.1-mini' }), apiKey })
 */
export class OpenAIChatClient implements PolicyClient {
  readonly capabilities: PolicyCapabilities;
  readonly name: string;
  readonly #options: OpenAIChatOptions;
  readonly #limiter: Limiter;
  readonly #random: Random;
  readonly #replicas: readonly Replica[];
  #isClosed = false;
  #guessedStops = 0;
  /** Changes permanently once a server rejects the older name. */
  #limitField: LimitField = 'max_tokens';

  constructor(options: OpenAIChatOptions) {
    const { baseUrls, versions, maxModelLen = null, maxConcurrentRequests = 256 } = options;
    if (baseUrls.length === 0) throw new ConfigError('baseUrls is empty. Pass the base URL of at least one OpenAI-compatible API.');
    this.#options = options;
    this.#limiter = new Limiter(maxConcurrentRequests);
    this.#random = options.random ?? Random.fromSeed(0);
    this.#replicas = baseUrls.map((baseUrl) => new Replica(baseUrl, options));
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

  /** Number of stop strings that were restored because their tag was open, not because the server reported them. */
  get guessedStops(): number {
    return this.#guessedStops;
  }

  /** Takes the healthy replica with the fewest trajectories; if none is healthy, the one that failed longest ago. */
  async lease(signal: AbortSignal): Promise<ChatLease> {
    if (signal.aborted) throw new CancelledError('Stopped before a lease was taken', { cause: signal.reason });
    if (this.#isClosed) throw new PolicyError('The client is closed');
    const healthy = this.#replicas.filter((replica) => Date.now() - replica.failedAtMs >= REST_MS);
    const ranked =
      healthy.length > 0 ? healthy.toSorted((a, b) => a.leases - b.leases) : this.#replicas.toSorted((a, b) => a.failedAtMs - b.failedAtMs);
    const replica = ranked[0]!;
    const version = this.#options.versions.acquire();
    replica.leases += 1;
    let isReleased = false;
    return {
      kind: 'chat',
      policy: version.ref,
      generate: (request) => this.#generate(replica, version.ref, request),
      [Symbol.asyncDispose]: async () => {
        if (isReleased) return;
        isReleased = true;
        replica.leases -= 1;
        version.release();
      },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#replicas.map((replica) => replica.close()));
  }

  async #generate(replica: Replica, policy: PolicyRef, request: GenerateRequest<readonly Message[]>): Promise<TextSample> {
    const { timeoutMs = 600_000, maxRetries = 3, baseDelayMs = 500 } = this.#options;
    const attempt = (signal: AbortSignal) => this.#complete(replica, policy, request, signal);
    const retries = { signal: request.signal, timeoutMs, maxRetries, baseDelayMs, random: this.#random, rateLimit: replica.rateLimit };
    try {
      const { stopWasGuessed, ...sample } = await this.#limiter.run(() => withRetries(attempt, retries), request.signal);
      replica.failedAtMs = -Infinity;
      replica.hasAnswered = true;
      if (stopWasGuessed) this.#guessedStops += 1;
      return sample;
    } catch (error) {
      if (error instanceof TimeoutError || (error instanceof PolicyError && error.retryable)) replica.failedAtMs = Date.now();
      // Another replica may succeed.
      if (error instanceof PolicyError && this.#replicas.length > 1) error.isRetriedOut = false;
      throw error instanceof PromptTooLongError ? tooLong(error, request, this.capabilities.maxModelLen) : error;
    }
  }

  #body(policy: PolicyRef, request: GenerateRequest<readonly Message[]>, limitField: LimitField): Promise<ChatBody> {
    return chatBody(policy.model, request, { limitField, images: this.#options.images ?? null });
  }

  async #complete(replica: Replica, policy: PolicyRef, request: GenerateRequest<readonly Message[]>, signal: AbortSignal): Promise<ChatSample> {
    const { stop, maxNewTokens } = request;
    const read = (answer: unknown) => readChat(answer, { stop, maxNewTokens, where: replica.url, hide: replica.hide });
    const limitField = this.#limitField;
    try {
      return read(await replica.complete(await this.#body(policy, request, limitField), signal));
    } catch (error) {
      if (!(error instanceof MaxTokensRefusedError) || limitField !== 'max_tokens') throw error;
      this.#limitField = 'max_completion_tokens';
      return read(await replica.complete(await this.#body(policy, request, this.#limitField), signal));
    }
  }
}

/** The server accepts only the newer name of the token limit. */
class MaxTokensRefusedError extends PolicyError {}

/** One base URL, served by the package on top of our transport. */
class Replica {
  readonly url: string;
  /** Removes this server's credentials from a string. */
  readonly hide: (text: string) => string;
  readonly rateLimit: RateLimit;
  leases = 0;
  /** It has returned a completion, so key, URL and model are right. */
  hasAnswered = false;
  /** The time at which a request last failed all its retries, in milliseconds since the epoch. */
  failedAtMs = -Infinity;
  readonly #options: OpenAIChatOptions;
  readonly #endpoint: HttpEndpoint;
  #package: Promise<OpenAI> | null = null;

  constructor(baseUrl: string, options: OpenAIChatOptions) {
    const { apiKey = '', headers = {}, maxConcurrentRequests = 256 } = options;
    this.#options = options;
    this.#endpoint = new HttpEndpoint({
      baseUrl,
      headers: { 'user-agent': 'vf-search', ...(apiKey === '' ? {} : { authorization: `Bearer ${apiKey}` }), ...headers },
      connections: Math.min(maxConcurrentRequests, 1024),
      makeError: (message, errorOptions) => new PolicyError(`${message}; check that the server runs and the URL is right`, errorOptions),
    });
    this.url = this.#endpoint.url;
    this.hide = this.#endpoint.hide;
    this.rateLimit = this.#endpoint.rateLimit;
  }

  async complete(body: ChatBody, signal: AbortSignal): Promise<unknown> {
    this.#package ??= this.#open();
    const openai = await this.#package;
    try {
      return await openai.chat.completions.create(body, { signal });
    } catch (error) {
      // The package wraps errors of its fetch; our own error is more specific.
      if (error instanceof Error && error.cause instanceof VfError) throw error.cause;
      if (error instanceof VfError) throw error;
      if (error instanceof SyntaxError) {
        // The parser quotes the response, which may contain the key.
        const cause = new SyntaxError(withoutExcerpt(error.message));
        throw new PolicyError(`The response of ${this.url} is not JSON`, { cause, retryable: true });
      }
      if (signal.aborted) throw signal.reason instanceof VfError ? signal.reason : new CancelledError('The request was stopped', { cause: error });
      throw new PolicyError(`The openai package could not read the response of ${this.url}`, { cause: error });
    }
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  async #open(): Promise<OpenAI> {
    const { OpenAI } = await import('openai');
    return new OpenAI({
      // The endpoint has the real host and key; the package must not send those that it finds in the environment.
      baseURL: 'http://replica',
      apiKey: 'sent-by-the-endpoint',
      organization: null,
      project: null,
      webhookSecret: null,
      logLevel: 'off',
      maxRetries: 0,
      timeout: 2 ** 31 - 1,
      fetch: (url, init) => this.#fetch(url instanceof Request ? url.url : new URL(url).href, init),
    });
  }

  /** A `fetch` only for the package: buffered JSON on pooled sockets, with a third of the CPU time of the built-in one. */
  async #fetch(url: string, { body, signal }: RequestInit = {}): Promise<Response> {
    const { pathname, search } = new URL(url);
    const path = pathname + search;
    if (typeof body !== 'string' || !(signal instanceof AbortSignal))
      throw new TypeError('The openai package sent a request without a JSON string or a signal. Install the version that package.json pins.');
    const response = await this.#endpoint.request({ method: 'POST', path, body, signal });
    const failure = this.#failure(path, body, response);
    if (failure !== null) throw failure;
    return bufferedResponse(url, response.body.toString('utf8'));
  }

  /** The error of a response that is no completion; null for one that may be. */
  #failure(path: string, body: string, response: HttpResponse): PolicyError | null {
    const isOk = response.status >= 200 && response.status < 300;
    if (isOk && !mayReportError(response.body)) return null;
    const { apiKeyVariable = null } = this.#options;
    const failure = httpErrorText('POST', `${this.url}${path}`, response.status, response.body, this.hide);
    if (refusesMaxTokens(response)) return new MaxTokensRefusedError(`The API rejected max_tokens: ${failure}`, { status: response.status });
    const context = { failure, model: modelOf(body), apiKeyVariable, url: this.url, hasAnswered: this.hasAnswered };
    return isOk ? chatBodyError(context, response.body) : chatError(context, response);
  }
}

const JSON_HEADERS = new Headers({ 'content-type': 'application/json' });

/** The parts of a 200 response that the package reads: a real Response costs as much CPU time as the request itself. */
function bufferedResponse(url: string, text: string): Response {
  const read: Pick<Response, 'ok' | 'status' | 'url' | 'headers' | 'body' | 'text'> = {
    ok: true,
    status: 200,
    url,
    headers: JSON_HEADERS,
    body: null,
    text: async () => text,
  };
  return read as Response;
}

function modelOf(body: string): string {
  return (JSON.parse(body) as { model: string }).model;
}
