/** A model of the AI SDK as a server of chat completions, in this process: the client of chat APIs asks it as it asks any other (chat-client.ts). */
import { PolicyError, VfError } from '../core/errors.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import { headerCredentials } from '../transport/credentials.ts';
import { RateLimit } from '../transport/rate-limit.ts';
import { redactUrl, redactSecrets } from '../transport/redact.ts';
import type { ChatServer, ChatServerParts } from './chat-client.ts';
import { completionOf, type ModelResult, StreamedResult, warningTexts } from './language-model-answer.ts';
import { cutStream, languageModelError, responseOf, streamError } from './language-model-failure.ts';
import { callOptions } from './language-model-prompt.ts';
import type { LanguageModel } from './language-model.ts';
import { streamReason } from './openai-chat-stream.ts';
import type { ChatBody } from './openai-chat-request.ts';
import type { StreamSetting } from './policy-client.ts';
import { FieldsRejectedError, RequestChangedError } from './request-changed.ts';

export interface LanguageModelServerOptions {
  /** @default 'auto' */
  readonly stream?: StreamSetting;
  /** Sent with every request, by provider. @default none */
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Texts that must reach no message, besides the headers of the provider. @default none */
  readonly secrets?: readonly string[];
}

type Fields = Readonly<Record<string, unknown>>;
type Call = (options: unknown) => PromiseLike<unknown>;

export class LanguageModelServer implements ChatServer {
  readonly url: string;
  readonly rateLimit = new RateLimit();
  leases = 0;
  hasAnswered = false;
  failedAtMs = -Infinity;
  readonly #model: LanguageModel;
  readonly #options: LanguageModelServerOptions;
  readonly #parts: ChatServerParts;
  #secrets: readonly string[];
  #asksForStreams: boolean;

  constructor(model: LanguageModel, options: LanguageModelServerOptions, parts: ChatServerParts) {
    this.#model = model;
    this.#options = options;
    this.#parts = parts;
    this.url = `${model.modelId} of ${model.provider}`;
    this.#asksForStreams = options.stream === true;
    this.#secrets = options.secrets ?? [];
  }

  readonly hide = (text: string): string => redactSecrets(redactUrl(text), this.#secrets);

  async complete(body: ChatBody, signal: AbortSignal): Promise<unknown> {
    const { specificationVersion } = this.#model;
    const options = { ...callOptions(body, specificationVersion, this.#options.providerOptions), abortSignal: signal };
    const askedMs = performance.now();
    try {
      const result = this.#asksForStreams ? await this.#streamed(options) : await this.#generated(options);
      for (const text of warningTexts(result.warnings, this.url)) this.#parts.remark(this.hide(text));
      return completionOf(result);
    } catch (thrown) {
      if (thrown instanceof VfError || signal.aborted) throw thrown;
      await this.#learnSecrets();
      throw this.#changed(thrown, body, performance.now() - askedMs) ?? languageModelError(thrown, this.#by);
    }
  }

  async close(): Promise<void> {}

  async #generated(options: Fields): Promise<ModelResult> {
    const { content, finishReason, usage, warnings, providerMetadata, response } = fieldsOf(
      await (this.#model.doGenerate as Call).call(this.#model, options),
    );
    if (!Array.isArray(content)) throw new PolicyError(`${this.url} returned no content, which every result of the AI SDK has`, { retryable: true });
    return { content: content.map(fieldsOf), finishReason, usage, providerMetadata, warnings: listOf(warnings), raw: [fieldsOf(response)['body']] };
  }

  /** Read whole, and then like any other answer: nothing is shown while it is written. */
  async #streamed(options: Fields): Promise<ModelResult> {
    const { stream } = fieldsOf(await (this.#model.doStream as Call).call(this.#model, { ...options, includeRawChunks: true }));
    const streamed = new StreamedResult();
    if (!(stream instanceof ReadableStream))
      throw new PolicyError(`${this.url} returned no stream, although it was asked for one`, { retryable: true });
    try {
      for await (const part of stream as ReadableStream<unknown>) streamed.add(fieldsOf(part));
    } catch (thrown) {
      if (options['abortSignal'] instanceof AbortSignal && options['abortSignal'].aborted) throw thrown;
      await this.#learnSecrets();
      throw cutStream(thrown, this.#by);
    }
    const { error, result } = streamed;
    if (error !== null) {
      await this.#learnSecrets();
      throw streamError(error.thrown, this.#by);
    }
    if (result === null) throw new PolicyError(`The stream of ${this.url} was cut: it has no end`, { retryable: true });
    return result;
  }

  /** The error after which the same request may be sent again in another form; null if the refusal has another cause. */
  #changed(thrown: unknown, body: ChatBody, tookMs: number): RequestChangedError | null {
    const response = responseOf(thrown);
    if (response === null) return null;
    const why = this.#asksForStreams || this.#options.stream === false ? null : streamReason(response, { tookMs });
    if (why !== null) {
      this.#asksForStreams = true;
      return new RequestChangedError(`${this.url} is asked for streams from now on: ${why}.`);
    }
    // How the limit is called is the provider's choice.
    const { max_tokens: _, ...named } = body;
    const rejected = this.#parts.rejected.learn(response, named);
    return rejected.length === 0 ? null : new FieldsRejectedError(rejected, this.url);
  }

  get #by() {
    return { where: this.url, model: this.#model.modelId, hide: this.hide, hasAnswered: this.hasAnswered };
  }

  /** The providers of the AI SDK keep the headers that they send where a model can be asked for them: a server may repeat a key in its refusal. */
  async #learnSecrets(): Promise<void> {
    const { headers } = fieldsOf(fieldsOf(this.#model)['config']);
    if (typeof headers !== 'function') return;
    try {
      const sent = Object.entries(fieldsOf(await (headers as () => unknown)())).filter(
        (entry): entry is [string, string] => typeof entry[1] === 'string',
      );
      this.#secrets = [...new Set([...this.#secrets, ...headerCredentials(Object.fromEntries(sent))])];
    } catch {
      // Without a key there are no headers, and nothing to hide.
    }
  }
}

function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}
