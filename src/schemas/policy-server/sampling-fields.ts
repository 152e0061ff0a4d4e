/** Fields shared by completion and chat requests. Names and defaults are those of vLLM 0.32.0. */
import type { XStatic } from 'typebox/schema';
import { flagOrNull, numberOrNull, object, text, tokenIds } from '../json-schema.ts';
import { refuseUnsupported } from './refused-fields.ts';
import { type Fields, wrongValue } from './request-problem.ts';

const integer = { type: ['integer', 'null'], minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER } as const;
const tokenIdsOrNull = { ...tokenIds, type: ['array', 'null'] } as const;

export const samplingProperties = {
  model: { type: ['string', 'null'], maxLength: 1024 },
  n: { ...integer, minimum: 1 },
  temperature: numberOrNull,
  top_p: numberOrNull,
  top_k: integer,
  min_p: numberOrNull,
  seed: integer,
  stop: { type: ['string', 'array', 'null'], items: text },
  stop_token_ids: tokenIdsOrNull,
  include_stop_str_in_output: flagOrNull,
  ignore_eos: flagOrNull,
  min_tokens: { ...integer, minimum: 0 },
  skip_special_tokens: flagOrNull,
  allowed_token_ids: tokenIdsOrNull,
  cache_salt: { type: ['string', 'null'], maxLength: 1024 },
  request_id: { type: ['string', 'null'], maxLength: 256 },
  prompt_logprobs: integer,
  return_token_ids: flagOrNull,
  return_tokens_as_token_ids: flagOrNull,
  add_special_tokens: flagOrNull,
  echo: flagOrNull,
  stream: flagOrNull,
  stream_options: { type: ['object', 'null'], properties: { include_usage: flagOrNull, continuous_usage_stats: flagOrNull } },
} as const;

const samplingSchema = object({}, samplingProperties);
export type SamplingWire = XStatic<typeof samplingSchema>;

export interface SamplingFields {
  /** Null means the base. */
  readonly model: string | null;
  readonly n: number;
  /** Null for the server's default. */
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly topK: number | null;
  readonly minP: number | null;
  readonly seed: number | null;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly includeStopString: boolean;
  readonly ignoreEnd: boolean;
  readonly minTokens: number;
  readonly skipSpecialTokens: boolean;
  readonly allowedTokenIds: readonly number[] | null;
  readonly cacheSalt: string | null;
  readonly requestId: string | null;
  /** Return log-probs of each prompt token and of this many likeliest ones; null returns none. */
  readonly promptLogProbs: number | null;
  readonly returnTokenIds: boolean;
  /** Write tokens as `token_id:12` instead of text. */
  readonly tokensAsIds: boolean;
  readonly echo: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Include the usage so far in every chunk of a stream. */
  readonly continuousUsage: boolean;
}

/** vLLM's own limits: VLLM_MAX_STOP_STRINGS and --max-logprobs. */
export const MAX_STOP_STRINGS = 4;
const MAX_LOG_PROBS = 20;
/** Ours: each choice looks for every stop string after every token. */
const MAX_STOP_LENGTH = 1024;

/** Ends the parser at an invalid value. The shape of `body` is already checked. */
export function samplingFields(body: Fields & SamplingWire): SamplingFields {
  const n = body.n ?? 1;
  refuseUnsupported(body, n);
  checkRanges(body, n);
  if (body.cache_salt === '') wrongValue('cache_salt', "Parameter 'cache_salt' must be a non-empty string if provided.");
  const { stream_options: options } = body;
  const stream = body.stream ?? false;
  if (options && !stream) wrongValue('stream_options', 'Stream options can only be defined when `stream=True`.');
  return {
    model: body.model ?? null,
    n,
    temperature: body.temperature ?? null,
    topP: body.top_p ?? null,
    topK: body.top_k ?? null,
    minP: body.min_p ?? null,
    seed: body.seed ?? null,
    stop: stopStrings(body.stop ?? []),
    stopTokenIds: body.stop_token_ids ?? [],
    includeStopString: body.include_stop_str_in_output ?? false,
    ignoreEnd: body.ignore_eos ?? false,
    minTokens: body.min_tokens ?? 0,
    skipSpecialTokens: body.skip_special_tokens ?? true,
    allowedTokenIds: body.allowed_token_ids ?? null,
    cacheSalt: body.cache_salt ?? null,
    requestId: body.request_id ?? null,
    promptLogProbs: promptLogProbs(body, stream),
    returnTokenIds: body.return_token_ids ?? false,
    tokensAsIds: body.return_tokens_as_token_ids ?? false,
    echo: body.echo ?? false,
    stream,
    includeUsage: options?.include_usage ?? false,
    continuousUsage: (options?.include_usage ?? false) && (options?.continuous_usage_stats ?? false),
  };
}

/** Null if none are requested. `name` is the field's name on the wire, `kind` vLLM's term. */
export function logProbCount(name: string, kind: 'sample' | 'prompt', count: number | null): number | null {
  if (count === null || (count >= 0 && count <= MAX_LOG_PROBS)) return count;
  if (count < -1) wrongValue(name, `\`${name}\` must be a positive value or -1.`, count);
  const all = count === -1 ? ' (all of the vocabulary)' : '';
  return wrongValue(name, `Requested ${kind} logprobs of ${count}${all}, which is greater than max allowed: ${MAX_LOG_PROBS}`, count);
}

function checkRanges({ temperature, top_p: topP, top_k: topK, min_p: minP, allowed_token_ids: allowed }: SamplingWire, n: number): void {
  if (temperature !== null && temperature !== undefined) {
    if (temperature < 0) wrongValue('temperature', `temperature must be non-negative, got ${temperature}.`, temperature);
    if (temperature > 2) wrongValue('temperature', `temperature must be in [0, 2], got ${temperature}.`, temperature);
    if (temperature === 0 && n > 1) wrongValue('n', `n must be 1 when using greedy sampling, got ${n}.`, n);
  }
  if (typeof topP === 'number' && !(topP > 0 && topP <= 1)) wrongValue('top_p', `top_p must be in (0, 1], got ${topP}.`, topP);
  if (typeof topK === 'number' && topK < -1) wrongValue('top_k', `top_k must be 0 (disable), or at least 1, got ${topK}.`, topK);
  if (typeof minP === 'number' && !(minP >= 0 && minP <= 1)) wrongValue('min_p', `min_p must be in [0, 1], got ${minP}.`, minP);
  if (allowed?.length === 0) wrongValue('allowed_token_ids', 'allowed_token_ids is not None and empty!');
}

function stopStrings(stop: string | readonly string[]): readonly string[] {
  const strings = typeof stop === 'string' ? [stop] : stop;
  if (strings.length > MAX_STOP_STRINGS) wrongValue('stop', `stop must hold at most ${MAX_STOP_STRINGS} strings, got ${strings.length}.`);
  const long = strings.find((string) => string.length > MAX_STOP_LENGTH);
  if (long !== undefined) wrongValue('stop', `stop must hold strings of at most ${MAX_STOP_LENGTH} characters, got one of ${long.length}.`);
  if (strings.includes('')) wrongValue('stop', 'stop cannot contain an empty string.');
  return strings;
}

function promptLogProbs({ prompt_logprobs: count = null }: SamplingWire, stream: boolean): number | null {
  if (stream && count !== null && (count > 0 || count === -1)) {
    wrongValue('prompt_logprobs', '`prompt_logprobs` are not available when `stream=True`.');
  }
  return logProbCount('prompt_logprobs', 'prompt', count);
}
