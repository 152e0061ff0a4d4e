/** One base URL of a chat API: its requests and responses. */
import { PolicyError } from '../core/errors.ts';
import { readJson } from '../core/read-json.ts';
import { HttpEndpoint, httpErrorText, type HttpResponse } from '../transport/http-endpoint.ts';
import type { RateLimit } from '../transport/rate-limit.ts';
import { chatBodyError, chatError, mayReportError } from './chat-failure.ts';
import { assembleChatStream, rejectsUsage, streamReason } from './openai-chat-stream.ts';
import type { OpenAIChatOptions } from './openai-chat.ts';
import type { ChatBody } from './openai-chat-request.ts';
import type { RejectedFields } from './rejected-fields.ts';
import { FieldsRejectedError, RequestChangedError } from './request-changed.ts';
import type { ChatServer } from './chat-client.ts';

const PATH = '/chat/completions';

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
    if (this.#asksForStreams) return this.#completeAsStream(body, signal);
    const request = { method: 'POST', path: PATH, body: JSON.stringify(body), signal } as const;
    const askedMs = performance.now();
    const response = await this.#endpoint.request(request);
    const why = this.#options.stream === false ? null : streamReason(response, { tookMs: performance.now() - askedMs });
    if (why !== null) {
      this.#asksForStreams = true;
      throw new RequestChangedError(`${this.url} is asked for streams from now on: ${why}.`);
    }
    const failure = this.#failure(request.body, response);
    if (failure !== null) throw failure;
    // Some servers answer only streams, whatever they are asked for.
    if (/^\s*(?:(?:data|event|id):|: )/.test(response.body.subarray(0, 64).toString('latin1'))) return this.#assembled(request.body, response);
    try {
      return readJson(response.body.toString('utf8'));
    } catch (cause) {
      throw new PolicyError(`The response of ${this.url} is not JSON`, { cause, retryable: true });
    }
  }

  async #completeAsStream(body: ChatBody, signal: AbortSignal): Promise<unknown> {
    const asked = { ...body, stream: true, ...(this.#asksForUsage && { stream_options: { include_usage: true } }) };
    const request = { method: 'POST', path: PATH, body: JSON.stringify(asked) } as const;
    const response = await this.#endpoint.request({ ...request, headers: { accept: 'text/event-stream' }, signal });
    if (this.#asksForUsage && rejectsUsage(response)) {
      this.#asksForUsage = false;
      throw new RequestChangedError(`${this.url} rejected stream_options, so it may not report the tokens of a stream.`);
    }
    const failure = this.#failure(request.body, response);
    if (failure !== null) throw failure;
    return this.#assembled(request.body, response);
  }

  async #assembled(body: string, response: HttpResponse): Promise<unknown> {
    const completion = await assembleChatStream(response.body.toString('utf8'), { where: this.url });
    // An event may report an error long after the status.
    const late = this.#failure(body, { ...response, body: Buffer.from(JSON.stringify(completion)) });
    if (late !== null) throw late;
    return completion;
  }

  close(): Promise<void> {
    return this.#endpoint.close();
  }

  /** The error of a response that is not a completion; null for one that may be. */
  #failure(body: string, response: HttpResponse): PolicyError | null {
    const isOk = response.status >= 200 && response.status < 300;
    if (isOk && !mayReportError(response.body)) return null;
    const { apiKeyVariable = null } = this.#options;
    const failure = httpErrorText('POST', `${this.url}${PATH}`, response.status, response.body, this.hide);
    const sent = JSON.parse(body) as ChatBody;
    const rejected = this.#rejected.learn(response, sent);
    if (rejected.length > 0) return new FieldsRejectedError(rejected, this.url);
    const context = { failure, hide: this.hide, model: sent.model, apiKeyVariable, url: this.url, hasAnswered: this.hasAnswered };
    return isOk ? chatBodyError(context, response.body) : chatError(context, response);
  }
}
