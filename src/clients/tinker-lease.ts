/** One trajectory of a policy behind the Tinker API, under one version. */
import { eitherSignal } from '../core/abort.ts';
import { ConfigError, PolicyError, PolicyKeyError, PromptTooLongError } from '../core/errors.ts';
import type { Message, RenderedTokens } from '../core/message.ts';
import type { Random } from '../core/random.ts';
import { renderedRequestFields, wholeSampling } from '../core/sampling.ts';
import type { SamplingSession } from '../tinker/service/sampling-session.ts';
import { TinkerError } from '../tinker/service/tinker-error.ts';
import { WireError } from '../tinker/wire/wire-error.ts';
import { IncrementalText } from '../tokenizer/incremental-text.ts';
import type { LocalTokenizer } from '../tokenizer/local-tokenizer.ts';
import { StopStrings } from '../tokenizer/stop-strings.ts';
import type { GenerateRequest, PolicyRef, RenderNextOptions, RenderOptions, TokenLease, TokenSample } from './policy-client.ts';
import { PromptGrowth } from './prompt-growth.ts';

export interface TinkerLeaseOptions {
  readonly sampling: SamplingSession;
  readonly tokenizer: LocalTokenizer;
  readonly endIds: readonly number[];
  readonly baseModel: string;
  readonly maxModelLen: number | null;
  readonly version: { readonly ref: PolicyRef; release(): void };
  /** Source of the generations' seeds; null sends none. */
  readonly random: Random | null;
  /** Aborts when the client is closed. */
  readonly closed: AbortSignal;
}

export class TinkerLease implements TokenLease {
  readonly kind = 'tokens';
  readonly policy: PolicyRef;
  readonly #options: TinkerLeaseOptions;
  readonly #prompt = new PromptGrowth();
  #closingToken: number | null = null;

  constructor(options: TinkerLeaseOptions) {
    this.#options = options;
    this.policy = options.version.ref;
  }

  async render(messages: readonly Message[], options: RenderOptions = {}): Promise<RenderedTokens> {
    const { tokenizer } = this.#options;
    const { ids, opening } = await tokenizer.render(messages, options);
    if (options.format !== 'continuation') this.#closingToken = await tokenizer.closingToken();
    return { ids: ids.slice(), images: [], ...(opening === undefined ? {} : { opening }) };
  }

  async renderNext(history: readonly Message[], next: readonly Message[], options: RenderNextOptions = {}): Promise<RenderedTokens> {
    const { ids } = await this.#options.tokenizer.renderNext(history, next, options);
    return { ids: ids.slice(), images: [] };
  }

  async encode(text: string): Promise<Int32Array> {
    return (await this.#options.tokenizer.encode(text)).ids.slice();
  }

  decode(ids: Int32Array): Promise<string> {
    return this.#options.tokenizer.decode(ids);
  }

  async generate(request: GenerateRequest<Int32Array>): Promise<TokenSample> {
    const { prompt, cut = false, signal, likeliest = 0, images = [] } = request;
    if (likeliest > 0 || images.length > 0)
      throw new ConfigError(`A policy behind the Tinker API ${likeliest > 0 ? 'lists no likeliest tokens' : 'reads text only'}; use vLLM for them`);
    this.#prompt.extendTo(prompt, cut);
    const { sampling, baseModel, closed, random } = this.#options;
    const { temperature, topP, ...rest } = wholeSampling(request.sampling);
    const maxTokens = this.#maxTokens(request);
    const { seed = random?.uint32() } = request;
    const { model } = this.policy;
    using either = eitherSignal(signal, closed);
    try {
      const samples = await sampling.sample({
        weights: model === baseModel ? { baseModel } : { path: model },
        prompt,
        maxTokens,
        temperature,
        topP,
        ...topKOf(rest),
        stop: await this.#stops(request.stop),
        // Servers read them as signed integers.
        ...(seed === undefined ? {} : { seed: seed >>> 1 }),
        signal: either.signal,
      });
      const [sequence] = samples.sequences;
      return this.#sampleOf(sequence!, request, maxTokens, samples.cachedTokens);
    } catch (error) {
      throw policyFailure(error);
    }
  }

  /** Ids where every stop string is one token, otherwise strings: the API takes no mixture. A server may have no end token next to strings, so that text is cut here in any case. */
  async #stops(stop: readonly string[]): Promise<readonly number[] | readonly string[]> {
    const { tokenizer } = this.#options;
    const encoded = await Promise.all(stop.map(async (each) => (await tokenizer.encode(each)).ids));
    if (encoded.some(({ length }) => length !== 1)) return stop;
    return [...new Set([...encoded.map((ids) => ids[0]!), ...this.#ends()])];
  }

  #ends(): readonly number[] {
    const { endIds } = this.#options;
    return this.#closingToken === null ? endIds : [...endIds, this.#closingToken];
  }

  #maxTokens({ maxNewTokens, prompt }: GenerateRequest<Int32Array>): number {
    const { maxModelLen } = this.#options;
    if (maxModelLen === null) {
      if (maxNewTokens !== null) return maxNewTokens;
      throw new ConfigError('The service does not report the length of its window. Set a maximum number of tokens per generation.');
    }
    const asked = maxNewTokens ?? Math.max(1, maxModelLen - prompt.length);
    if (prompt.length + asked <= maxModelLen) return asked;
    throw new PromptTooLongError(`A prompt of ${prompt.length} tokens and ${asked} new ones do not fit the model's window of ${maxModelLen} tokens`);
  }

  /** Ends the sample at the first stop string or end token, whatever the server did. Throws PolicyError for tokens that no model can have sampled. */
  #sampleOf(
    { tokens, logProbs, stopReason }: { readonly tokens: Int32Array; readonly logProbs: Float32Array; readonly stopReason: 'stop' | 'length' },
    { prompt, stop }: GenerateRequest<Int32Array>,
    maxTokens: number,
    cachedTokens: number,
  ): TokenSample {
    const { tokenizer, sampling } = this.#options;
    if (tokens.length > maxTokens)
      throw new PolicyError(`${sampling.url} sampled ${tokens.length} tokens, but the limit was ${maxTokens}: the service ignores max_tokens`);
    const foreign = tokens.findIndex((id) => id < 0 || id >= tokenizer.vocabularySize);
    if (foreign >= 0)
      throw new PolicyError(
        `${sampling.url} sampled id ${tokens[foreign]}, but the vocabulary of model.path has only ${tokenizer.vocabularySize}: backend.model is another model`,
      );
    const ends = this.#ends();
    const text = new IncrementalText(tokenizer.bytes, { skipSpecialTokens: true });
    const stops = new StopStrings(stop);
    const textEnds: number[] = [];
    let whole = '';
    let hit: { readonly string: string; readonly end: number } | null = null;
    let isEnded = false;
    for (const id of tokens) {
      const piece = text.push(id);
      whole += piece;
      textEnds.push(whole.length);
      hit = stops.push(piece, true);
      isEnded = ends.includes(id);
      if (hit !== null || isEnded) break;
    }
    const count = textEnds.length;
    const cut = hit?.end ?? whole.length;
    return {
      text: whole.slice(0, cut),
      tail: whole.slice(cut),
      ids: tokens.slice(0, count),
      logProbs: Float64Array.from(logProbs.subarray(0, count)),
      textEnds: Int32Array.from(textEnds),
      finish: hit !== null || isEnded ? 'stop' : stopReason,
      stopReason: hit?.string ?? null,
      usage: { promptTokens: prompt.length, completionTokens: count, cachedTokens: cachedTokens === 0 ? null : cachedTokens },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#options.version.release();
  }
}

/** Throws ConfigError for fields that the API lacks. */
function topKOf(sampling: Parameters<typeof renderedRequestFields>[0]): { readonly topK?: number } {
  const { top_k: topK, ...others } = renderedRequestFields(sampling);
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw new ConfigError(`The Tinker API samples by temperature, top_p and top_k, and has no ${unknown}; leave it out`);
  return typeof topK === 'number' ? { topK } : {};
}

/** The service's failures as those of a policy; others as they are. */
function policyFailure(error: unknown): unknown {
  if (error instanceof WireError) return new PolicyError(error.message, { cause: error });
  if (!(error instanceof TinkerError)) return error;
  const { message, status, endsRun, isGone, retryable } = error;
  const options = { cause: error, retryable: retryable || isGone, endsRun, ...(status === null ? {} : { status }) };
  return status === 401 || status === 403 ? new PolicyKeyError(message, options) : new PolicyError(message, options);
}
