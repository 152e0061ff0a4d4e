/** One base URL of a chat API: its requests and responses, through the `openai` package (imported at the first request) on top of the transport. */
import type OpenAI from 'openai';
import { CancelledError, PolicyError, VfError } from '../core/errors.ts';
import { withoutExcerpt } from '../core/read-json.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse } from '../transport/http-endpoint.ts';
import type { RateLimit } from '../transport/rate-limit.ts';
import { chatBodyError, chatError, mayReportError } from './chat-failure.ts';
import { assembleChatStream, rejectsUsage, streamReason } from './openai-chat-stream.ts';
import type { OpenAIChatOptions } from './openai-chat.ts';
import type { ChatBody } from './openai-chat-request.ts';
import type { RejectedFields } from './rejected-fields.ts';
import { FieldsRejectedError, RequestChangedError } from './request-changed.ts';
import type { ChatServer } from './chat-client.ts';

/** One base URL, served by the package on top of our transport. */
export class ChatReplica implements ChatServer {
  readonly url: string;
  readonly hide: (text: string) => string;
  readonly rateLimit: RateLimit;
  leases = 0;
  hasAnswered = false;
  failedAtMs = -Infinity;
  readonly #options: OpenAIChatOptions;
  readonly #endpoint: HttpEndpoint;
  readonly #rejected: RejectedFields;
  #asksForStreams: boolean;
  /** False once the server has rejected the option. */
  #asksForUsage = true;
  #package: Promise<OpenAI> | null = null;

  constructor(baseUrl: string, options: OpenAIChatOptions, rejected: RejectedFields) {
    this.#rejected = rejected;
    const { apiKey = '', headers = {}, maxConcurrentRequests = 256 } = options;
    this.#options = options;
    this.#asksForStreams = options.stream === true;
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
    if (this.#asksForStreams) return this.#completeAsStream(openai, body, signal);
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

  async #completeAsStream(openai: OpenAI, body: ChatBody, signal: AbortSignal): Promise<unknown> {
    const asked = { ...body, stream: true, ...(this.#asksForUsage && { stream_options: { include_usage: true } }) };
    const request = { method: 'POST', path: '/chat/completions', body: JSON.stringify(asked) } as const;
    const response = await this.#endpoint.request({ ...request, headers: { accept: 'text/event-stream' }, signal });
    if (this.#asksForUsage && rejectsUsage(response)) {
      this.#asksForUsage = false;
      throw new RequestChangedError(`${this.url} rejected stream_options, so it may not report the tokens of a stream.`);
    }
    const failure = this.#failure(request.path, request.body, response);
    if (failure !== null) throw failure;
    return this.#assembled(openai, request, response);
  }

  async #assembled(openai: OpenAI, { path, body }: { readonly path: string; readonly body: string }, response: HttpResponse): Promise<unknown> {
    const completion = await assembleChatStream(response.body.toString('utf8'), { openai, where: this.url });
    // An event may report an error long after the status.
    const late = this.#failure(path, body, { ...response, body: Buffer.from(JSON.stringify(completion)) });
    if (late !== null) throw late;
    return completion;
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
    const askedMs = performance.now();
    const response = await this.#endpoint.request({ method: 'POST', path, body, signal });
    const why = this.#options.stream === false ? null : streamReason(response, { tookMs: performance.now() - askedMs });
    if (why !== null) {
      this.#asksForStreams = true;
      throw new RequestChangedError(`${this.url} is asked for streams from now on: ${why}.`);
    }
    const failure = this.#failure(path, body, response);
    if (failure !== null) throw failure;
    // Some servers answer only streams, whatever they are asked for.
    const isStream = /^\s*(?:(?:data|event|id):|: )/.test(response.body.subarray(0, 64).toString('latin1'));
    const text = isStream ? JSON.stringify(await this.#assembled((await this.#package)!, { path, body }, response)) : response.body.toString('utf8');
    return bufferedResponse(url, text);
  }

  /** The error of a response that is not a completion; null for one that may be. */
  #failure(path: string, body: string, response: HttpResponse): PolicyError | null {
    const isOk = response.status >= 200 && response.status < 300;
    if (isOk && !mayReportError(response.body)) return null;
    const { apiKeyVariable = null } = this.#options;
    const failure = httpErrorText('POST', `${this.url}${path}`, response.status, response.body, this.hide);
    const sent = JSON.parse(body) as ChatBody;
    const rejected = this.#rejected.learn(response, sent);
    if (rejected.length > 0) return new FieldsRejectedError(rejected, this.url);
    const context = { failure, hide: this.hide, model: sent.model, apiKeyVariable, url: this.url, hasAnswered: this.hasAnswered };
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
