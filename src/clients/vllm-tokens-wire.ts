/**
 * Writes the bytes of a completion request and reads its response. The work per turn is proportional to its new tokens: the prompt's digits are
 * kept and appended to, and the copy of the prompt in the response is compared as bytes, never parsed.
 */
import { ConfigError, PolicyError, PromptTooLongError } from '../core/errors.ts';
import { readJson } from '../core/read-json.ts';
import { isTokenCount, renderedRequestFields, wholeSampling } from '../core/sampling.ts';
import { HIGHEST_LOG_PROB, isTokenId } from '../schemas/log-prob-range.ts';
import { type VllmCompletion, VllmCompletionShape, type WireShape } from '../schemas/vllm.ts';
import { fieldsOf } from '../schemas/is-object.ts';
import { quotation } from '../transport/quotes.ts';
import type { GenerateRequest, PolicyRef, TokenSample } from './policy-client.ts';
import { PromptGrowth } from './prompt-growth.ts';
import { alignTokens } from './vllm-tokens-align.ts';
import { withoutNonFinite } from '../core/finite-json.ts';

/** Fields that the client sets; `sampling.extra` must not contain them. */
const OWN_FIELDS: ReadonlySet<string> = new Set(
  (
    'model prompt prompt_embeds max_tokens max_completion_tokens temperature top_p stop stop_token_ids n best_of seed stream stream_options echo logprobs ' +
    'prompt_logprobs return_token_ids return_tokens_as_token_ids include_stop_str_in_output skip_special_tokens detokenize cache_salt'
  ).split(' '),
);

/**
 * All fields except the prompt. Sends every sampling field, so that no default of the server or the model applies. Sends no seed: seeds slow down
 * vLLM's sampler, so that a lease adds one only where it is asked for.
 */
export function completionFields(policy: PolicyRef, request: Omit<GenerateRequest<never>, 'prompt' | 'signal'>): Record<string, unknown> {
  const { sampling, maxNewTokens, stop, likeliest = 0 } = request;
  const extra = renderedRequestFields(sampling);
  const foreign = Object.keys(extra).filter((name) => OWN_FIELDS.has(name));
  if (foreign.length > 0) {
    throw new ConfigError(
      `Generation by token ids sets ${foreign.join(', ')} itself. Leave ${foreign.length === 1 ? 'it' : 'them'} out of the sampling arguments.`,
    );
  }
  const { temperature, topP } = wholeSampling(sampling);
  return {
    model: policy.model,
    max_tokens: maxNewTokens,
    temperature,
    top_p: topP,
    top_k: -1,
    min_p: 0,
    repetition_penalty: 1,
    ...extra,
    ...(stop.length === 0 ? {} : { stop }),
    include_stop_str_in_output: true,
    return_token_ids: true,
    return_tokens_as_token_ids: false,
    logprobs: likeliest,
    ...(policy.cacheSalt === undefined ? {} : { cache_salt: policy.cacheSalt }),
  };
}

type Logprobs = VllmCompletion['choices'][number]['logprobs'];

const HEAD_ROOM = 1024;

/** The growing prompt of one trajectory as bytes of a request: room for the other fields, then the ids in decimal. */
export class PromptBytes {
  readonly #growth = new PromptGrowth();
  #bytes = Buffer.allocUnsafe(HEAD_ROOM * 8);
  #head = HEAD_ROOM;
  #end = HEAD_ROOM;
  #count = 0;

  /** Throws PrefixBreakError if `prompt` does not begin with the previous one. `cut` skips the check: the prompt was truncated on purpose. */
  extendTo(prompt: Int32Array, cut: boolean): void {
    this.#growth.extendTo(prompt, cut);
    if (cut) {
      this.#end = this.#head;
      this.#count = 0;
    }
    if (prompt.length === this.#count) return;
    const digits = (this.#count === 0 ? '' : ',') + prompt.subarray(this.#count).join(',');
    this.#reserve(this.#head, this.#end + digits.length + 2);
    this.#end += this.#bytes.write(digits, this.#end, 'latin1');
    this.#count = prompt.length;
  }

  /** The whole body, as a view that the next call overwrites. */
  body(fields: Readonly<Record<string, unknown>>): Buffer {
    const head = Buffer.from(`${JSON.stringify(fields).slice(0, -1)},"prompt":[`);
    if (head.length > this.#head) this.#reserve(head.length * 2, this.#end + 2 + head.length * 2);
    const start = this.#head - head.length;
    head.copy(this.#bytes, start);
    this.#bytes.write(']}', this.#end, 'latin1');
    return this.#bytes.subarray(start, this.#end + 2);
  }

  /** The ids as sent, without the brackets. */
  get digits(): Buffer {
    return this.#bytes.subarray(this.#head, this.#end);
  }

  #reserve(head: number, capacity: number): void {
    if (head === this.#head && capacity <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(capacity, this.#bytes.length * 2));
    const length = this.digits.copy(grown, head);
    this.#bytes = grown;
    this.#head = head;
    this.#end = head + length;
  }
}

const ECHO_KEY = Buffer.from('"prompt_token_ids":[');

/**
 * The response's JSON without the prompt that the server repeats. `isEcho`: the prompt was there, digit for digit; otherwise the JSON is returned
 * whole. The key cannot occur inside a string, where its quotes would be escaped.
 */
export function withoutEcho(body: Buffer, digits: Buffer): { readonly text: string; readonly isEcho: boolean } {
  const key = body.indexOf(ECHO_KEY);
  const start = key + ECHO_KEY.length;
  const end = start + digits.length;
  // 0x5d is ].
  if (key < 0 || body[end] !== 0x5d || digits.compare(body, start, end) !== 0) return { text: body.toString('utf8'), isEcho: false };
  return { text: body.toString('utf8', 0, start) + body.toString('utf8', end), isEcho: true };
}

/** Parses a response. NaN and Infinity, which Python may write although JSON has neither, become null. A truncated response is retryable. */
export function parseAnswer<T>(text: string, shape: WireShape<T>, where: string): T {
  const value = parseLenientJson(text, where);
  const problem = shape.check(value);
  if (problem !== null) {
    throw new PolicyError(`The response of ${where} does not have vLLM's format: ${problem}. Check that the URL is that of a vLLM server.`);
  }
  return value as T;
}

function parseLenientJson(text: string, where: string): unknown {
  try {
    return readJson(text);
  } catch (cause) {
    const lenient = withoutNonFinite(text);
    try {
      if (lenient !== text) return JSON.parse(lenient);
    } catch {
      // The error below has the first parser's error as its cause.
    }
    throw new PolicyError(`The response of ${where} (${text.length} characters) is not JSON`, { cause, retryable: true });
  }
}

export interface CompletionContext {
  readonly prompt: Int32Array;
  /** The requested limit on new tokens. */
  readonly maxNewTokens: number;
  /** Number of ids in the vocabulary; null if unknown. */
  readonly vocabularySize: number | null;
  readonly prompted: PromptBytes;
  readonly stop: readonly string[];
  /** @default 0 */
  readonly likeliest?: number;
  readonly where: string;
}

/** Reads and checks one generation. Throws PolicyError for a response that cannot be correct. */
export function readCompletion(body: Buffer, context: CompletionContext): TokenSample {
  const { prompt, prompted, where } = context;
  const { text: json, isEcho } = withoutEcho(body, prompted.digits);
  const answer = parseAnswer(json, VllmCompletionShape, where);
  const { prompt_token_ids: echoed } = answer.choices[0]!;
  if (!isEcho && echoed && !samePrompt(echoed, prompt))
    throw new PolicyError(`${where} continued another prompt than it was sent: ${echoed.length} tokens instead of our ${prompt.length}`);
  return readChoice(answer, context);
}

/** Reads and checks the first choice of an answer. Throws PolicyError for one that cannot be correct. */
export function readChoice(answer: VllmCompletion, context: CompletionContext): TokenSample {
  const { prompt, stop, likeliest = 0, where } = context;
  const { text, token_ids: ids, logprobs, finish_reason: finish, stop_reason: stopReason = null } = answer.choices[0]!;
  assertPossible(ids, logprobs, context);
  if (finish !== 'stop' && finish !== 'length') {
    const reason = quotation(JSON.stringify(finish).slice(0, 200));
    throw new PolicyError(`${where} finished with the reason ${reason}, which is neither "stop" nor "length"`, {
      retryable: finish === 'abort' || finish === null,
    });
  }
  const endsAtStopString = typeof stopReason === 'string';
  if (endsAtStopString && stop.includes(stopReason) && !text.endsWith(stopReason)) {
    throw new PolicyError(`${where} removed the stop string ${stopReason}: the server ignores include_stop_str_in_output`);
  }
  const { textEnds, tail, unexplained } = alignTokens(text, logprobs.tokens, endsAtStopString);
  if (unexplained > 0)
    throw new PolicyError(
      `The tokens that ${where} returned do not spell its text: no token accounts for ${unexplained} of ${text.length} characters`,
    );
  return {
    text,
    tail,
    ids: Int32Array.from(ids),
    logProbs: Float64Array.from(logprobs.token_logprobs, readLogProb),
    textEnds,
    finish,
    stopReason,
    usage: usageOf(answer, prompt.length, ids.length),
    ...(likeliest === 0 ? {} : { likeliest: likeliestOf(logprobs, { likeliest, where }) }),
  };
}

/** By text, so that of two tokens with the same text the server lists one. The sampled token is listed too, wherever it stands. */
function likeliestOf({ tokens, top_logprobs: lists }: Logprobs, { likeliest, where }: { readonly likeliest: number; readonly where: string }) {
  if (!Array.isArray(lists) || lists.length !== tokens.length)
    throw new PolicyError(`${where} did not list the likeliest tokens, although logprobs was ${likeliest}`);
  return lists.map((list: unknown) =>
    Object.entries(fieldsOf(list))
      .flatMap(([text, logProb]) => (typeof logProb === 'number' ? [{ text, logProb: readLogProb(logProb) }] : []))
      .toSorted((a, b) => b.logProb - a.logProb)
      .slice(0, likeliest),
  );
}

/** Throws PolicyError for tokens that no model can have sampled, because they would be trained on. */
function assertPossible(ids: readonly number[], logprobs: Logprobs, { maxNewTokens, vocabularySize, where }: CompletionContext): void {
  const { token_logprobs: logProbs, tokens } = logprobs;
  if (ids.length !== logProbs.length || ids.length !== tokens.length) {
    throw new PolicyError(`${where} returned ${logProbs.length} log-probs and ${tokens.length} strings for ${ids.length} sampled tokens`);
  }
  if (ids.length > maxNewTokens)
    throw new PolicyError(`${where} sampled ${ids.length} tokens, but the limit was ${maxNewTokens}: the server ignores max_tokens`);
  const above = logProbs.findIndex((value) => value !== null && value > HIGHEST_LOG_PROB);
  if (above >= 0) throw new PolicyError(`${where} returned log-prob ${logProbs[above]} for token ${above}, which is above 0`);
  const foreign = ids.findIndex((id) => !isTokenId(id) || id >= (vocabularySize ?? Infinity));
  if (foreign >= 0)
    throw new PolicyError(
      `${where} sampled id ${ids[foreign]}, ${vocabularySize === null ? 'which no vocabulary has' : `but the vocabulary has only ${vocabularySize}`}: it serves another tokenizer`,
    );
}

/** vLLM writes -9999 for minus infinity; null stands for NaN. */
function readLogProb(value: number | null): number {
  if (value === null) return NaN;
  return value <= -9999 ? -Infinity : value;
}

function usageOf({ usage }: VllmCompletion, promptTokens: number, completionTokens: number): TokenSample['usage'] {
  const counted = <T>(value: unknown, otherwise: T) => (isTokenCount(value) ? value : otherwise);
  return {
    promptTokens: counted(usage?.prompt_tokens, promptTokens),
    completionTokens: counted(usage?.completion_tokens, completionTokens),
    cachedTokens: counted(usage?.prompt_tokens_details?.cached_tokens, null),
  };
}

function samePrompt(echoed: readonly number[], prompt: Int32Array): boolean {
  return echoed.length === prompt.length && echoed.every((id, i) => id === prompt[i]);
}

interface WindowUse {
  readonly promptTokens: number;
  readonly maxNewTokens: number;
  readonly maxModelLen: number | null;
}

/** Turns a PromptTooLongError for a request that fits the reported window into a PolicyError: it is a server failure, not the end of an episode. */
export function windowError(error: unknown, { promptTokens, maxNewTokens, maxModelLen }: WindowUse): unknown {
  if (!(error instanceof PromptTooLongError) || maxModelLen === null || promptTokens + maxNewTokens > maxModelLen) return error;
  return new PolicyError(
    `The policy server reports a window of ${maxModelLen} tokens but rejected ${promptTokens} with ${maxNewTokens} new ones: ${error.message}. Check its --max-model-len`,
    { cause: error, status: error.status ?? 400 },
  );
}
