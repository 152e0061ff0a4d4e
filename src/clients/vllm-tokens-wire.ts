/**
 * The bytes of a completion request and what is read from its answer. A turn costs work in proportion to its new tokens: the prompt's
 * digits are kept and appended to, and the copy of the prompt that the server sends back is compared as bytes, never parsed.
 */
import { ConfigError, PolicyError, PromptTooLongError } from '../core/errors.ts';
import { readJson } from '../core/read-json.ts';
import { type VllmCompletion, VllmCompletionShape, type WireShape } from '../schemas/vllm.ts';
import type { GenerateRequest, PolicyRef, TokenSample } from './policy-client.ts';
import { PromptGrowth } from './prompt-growth.ts';
import { alignTokens } from './vllm-tokens-align.ts';

/** What a request says itself; `sampling.extra` may not say it differently. */
const OWN_FIELDS: ReadonlySet<string> = new Set(
  (
    'model prompt prompt_embeds max_tokens max_completion_tokens temperature top_p stop stop_token_ids n best_of seed stream stream_options echo logprobs ' +
    'prompt_logprobs return_token_ids return_tokens_as_token_ids include_stop_str_in_output skip_special_tokens detokenize cache_salt'
  ).split(' '),
);

/**
 * All fields but the prompt. Every sampling field is sent, so that no default of the server or the model applies. No seed: seeds slow
 * vLLM's sampler down, and its CPU build dies of them.
 */
export function completionFields(policy: PolicyRef, request: Omit<GenerateRequest<never>, 'prompt' | 'signal'>): Record<string, unknown> {
  const { sampling, maxNewTokens, stop } = request;
  const foreign = Object.keys(sampling.extra ?? {}).filter((name) => OWN_FIELDS.has(name));
  if (foreign.length > 0) {
    throw new ConfigError(
      `Generation by token ids sets ${foreign.join(', ')} itself. Leave ${foreign.length === 1 ? 'it' : 'them'} out of the sampling arguments.`,
    );
  }
  return {
    model: policy.model,
    max_tokens: maxNewTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: -1,
    min_p: 0,
    repetition_penalty: 1,
    ...sampling.extra,
    ...(stop.length === 0 ? {} : { stop }),
    include_stop_str_in_output: true,
    return_token_ids: true,
    return_tokens_as_token_ids: false,
    logprobs: 0,
    ...(policy.cacheSalt === undefined ? {} : { cache_salt: policy.cacheSalt }),
  };
}

type Logprobs = VllmCompletion['choices'][number]['logprobs'];

const HEAD_ROOM = 1024;

/** The growing prompt of one trajectory as request bytes: room for the other fields, then the ids in decimal. */
export class PromptBytes {
  readonly #growth = new PromptGrowth();
  #bytes = Buffer.allocUnsafe(HEAD_ROOM * 8);
  #head = HEAD_ROOM;
  #end = HEAD_ROOM;
  #count = 0;

  /** Throws PrefixBreakError when `prompt` does not begin with the last one; a prompt that was `cut` on purpose begins anew. */
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

  /** The whole body; a view that the next call overwrites. */
  body(fields: Readonly<Record<string, unknown>>): Buffer {
    const head = Buffer.from(`${JSON.stringify(fields).slice(0, -1)},"prompt":[`);
    if (head.length > this.#head) this.#reserve(head.length * 2, this.#end + 2 + head.length * 2);
    const start = this.#head - head.length;
    head.copy(this.#bytes, start);
    this.#bytes.write(']}', this.#end, 'latin1');
    return this.#bytes.subarray(start, this.#end + 2);
  }

  /** The ids as they are sent, between the brackets. */
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
 * The answer's JSON without the prompt that the server repeats. `isEcho` says whether the prompt was there, digit for digit; otherwise the
 * text is whole. No string can hold the key: its quotes would be escaped.
 */
export function withoutEcho(body: Buffer, digits: Buffer): { readonly text: string; readonly isEcho: boolean } {
  const key = body.indexOf(ECHO_KEY);
  const start = key + ECHO_KEY.length;
  const end = start + digits.length;
  // 0x5d is the closing bracket.
  if (key < 0 || body[end] !== 0x5d || digits.compare(body, start, end) !== 0) return { text: body.toString('utf8'), isEcho: false };
  return { text: body.toString('utf8', 0, start) + body.toString('utf8', end), isEcho: true };
}

/** Parses an answer; NaN and Infinity, which Python may write and JSON does not know, become null. A torn answer may be whole next time. */
export function parseAnswer<T>(text: string, shape: WireShape<T>, where: string): T {
  const value = parseLenientJson(text, where);
  const problem = shape.check(value);
  if (problem !== null) {
    throw new PolicyError(`${where} does not answer as vLLM does: ${problem}. Check that the URL is that of a vLLM server.`);
  }
  return value as T;
}

function parseLenientJson(text: string, where: string): unknown {
  try {
    return readJson(text);
  } catch (cause) {
    const lenient = /NaN|Infinity/.test(text)
      ? text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\b(?:NaN|Infinity)\b/gs, (match) => (match.startsWith('"') ? match : 'null'))
      : text;
    try {
      if (lenient !== text) return JSON.parse(lenient);
    } catch {
      // Reported below with the cause that the whole text gave.
    }
    throw new PolicyError(`The answer of ${where} is not JSON: ${text.length} characters do not parse`, { cause, retryable: true });
  }
}

export interface CompletionContext {
  readonly prompt: Int32Array;
  /** New tokens that were asked for at most. */
  readonly maxNewTokens: number;
  /** Ids are below it; null where the vocabulary is not known. */
  readonly vocabularySize: number | null;
  readonly prompted: PromptBytes;
  readonly stop: readonly string[];
  readonly where: string;
}

/** One generation as it is kept. */
export function readCompletion(body: Buffer, context: CompletionContext): TokenSample {
  const { prompt, prompted, stop, where } = context;
  const { text: json, isEcho } = withoutEcho(body, prompted.digits);
  const answer = parseAnswer(json, VllmCompletionShape, where);
  const choice = answer.choices[0]!;
  const { text, token_ids: ids, logprobs, finish_reason: finish, stop_reason: stopReason = null } = choice;
  assertPossible(ids, logprobs, context);
  if (!isEcho && choice.prompt_token_ids && !samePrompt(choice.prompt_token_ids, prompt)) {
    throw new PolicyError(`${where} was sent ${prompt.length} tokens, and continued ${choice.prompt_token_ids.length} others`);
  }
  if (finish !== 'stop' && finish !== 'length') {
    throw new PolicyError(`${where} finished with ${JSON.stringify(finish)}, which is neither "stop" nor "length"`, {
      retryable: finish === 'abort' || finish === null,
    });
  }
  const endsAtStopString = typeof stopReason === 'string';
  if (endsAtStopString && stop.includes(stopReason) && !text.endsWith(stopReason)) {
    throw new PolicyError(`${where} cut off the stop string ${stopReason}: the server ignores include_stop_str_in_output`);
  }
  const { textEnds, tail, unexplained } = alignTokens(text, logprobs.tokens, endsAtStopString);
  if (unexplained > 0)
    throw new PolicyError(`The tokens of ${where} do not spell its text: no token accounts for ${unexplained} of ${text.length} characters`);
  return {
    text,
    tail,
    ids: Int32Array.from(ids),
    logProbs: Float64Array.from(logprobs.token_logprobs, readLogProb),
    textEnds,
    finish,
    stopReason,
    usage: usageOf(answer, prompt.length, ids.length),
  };
}

/** A probability just above 1 is rounding. */
const HIGHEST_LOG_PROB = 1e-3;

/** Throws PolicyError for what no model samples: it would be trained on as if it were true. */
function assertPossible(ids: readonly number[], logprobs: Logprobs, { maxNewTokens, vocabularySize, where }: CompletionContext): void {
  const { token_logprobs: logProbs, tokens } = logprobs;
  if (ids.length !== logProbs.length || ids.length !== tokens.length) {
    throw new PolicyError(`${where} gave ${logProbs.length} log-probs and ${tokens.length} strings for ${ids.length} sampled tokens`);
  }
  if (ids.length > maxNewTokens)
    throw new PolicyError(`${where} sampled ${ids.length} tokens, and the limit was ${maxNewTokens}: the server ignores max_tokens`);
  const certain = logProbs.findIndex((value) => value !== null && value > HIGHEST_LOG_PROB);
  if (certain >= 0) throw new PolicyError(`${where} gave token ${certain} the log-prob ${logProbs[certain]}, which is above 0`);
  const foreign = vocabularySize === null ? -1 : ids.findIndex((id) => id >= vocabularySize);
  if (foreign >= 0)
    throw new PolicyError(`${where} sampled the id ${ids[foreign]}, and the vocabulary has ${vocabularySize}: it serves another tokenizer`);
}

/** vLLM writes -9999 for minus infinity; what JSON cannot carry is null. */
export function readLogProb(value: number | null): number {
  if (value === null) return NaN;
  return value <= -9999 ? -Infinity : value;
}

function usageOf({ usage }: VllmCompletion, promptTokens: number, completionTokens: number): TokenSample['usage'] {
  return {
    promptTokens: usage?.prompt_tokens ?? promptTokens,
    completionTokens: usage?.completion_tokens ?? completionTokens,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? null,
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

/** The error as it is, but a PromptTooLongError about a request that fits the announced window: that is the server's failure, not the end of an episode. */
export function windowError(error: unknown, { promptTokens, maxNewTokens, maxModelLen }: WindowUse): unknown {
  if (!(error instanceof PromptTooLongError) || maxModelLen === null || promptTokens + maxNewTokens > maxModelLen) return error;
  return new PolicyError(
    `The policy server announced a window of ${maxModelLen} tokens and refuses ${promptTokens} with ${maxNewTokens} new ones: ${error.message}. Check its --max-model-len`,
    { cause: error, status: error.status ?? 400 },
  );
}
