/** What a sampling request gives, in protobuf and in JSON. */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { JsonSampleResponse } from '../../schemas/tinker/samples.ts';
import { SampledSequenceSchema, SampleResponseSchema, type TopkLogprobs, TopkLogprobsSchema, TensorSchema } from './generated/tinker-public.ts';
import { decoded } from './protobuf-pass.ts';
import { WireError } from './wire-error.ts';
import { bytesOf, floats, integers, tensorBytes, tensorJson, tensorOf, type WireTensor } from './wire-tensor.ts';

/** The likeliest tokens of each place. */
interface LikeliestTokens {
  readonly k: number;
  /** [places, k]; 0 where there is none. */
  readonly ids: Int32Array;
  /** [places, k]; NO_LOG_PROB where there is none. */
  readonly logProbs: Float32Array;
}

interface SampledSequence {
  readonly stopReason: 'stop' | 'length';
  /** The token that ended it included. [T] */
  readonly tokens: Int32Array;
  /** Of the model's own distribution. [T] */
  readonly logProbs: Float32Array;
  readonly likeliest: LikeliestTokens | null;
}

export interface Samples {
  readonly sequences: readonly SampledSequence[];
  /** NaN where there is none, as for the first token; null if they were not asked for. [P] */
  readonly promptLogProbs: Float32Array | null;
  readonly promptLikeliest: LikeliestTokens | null;
  /** Log-probs of the tokens that the request named, in its shape; null if it named none. */
  readonly targetLogProbs: WireTensor | null;
  /** Tokens of the prompt that were read from a cache. */
  readonly cachedTokens: number;
}

/** Stands in cells without a value. */
export const NO_LOG_PROB = -99_999;
const [FLOAT32, INT32] = [1, 3] as const;
const STOP_REASONS = ['stop', 'length'] as const;

export function encodeSamples({ sequences, promptLogProbs, promptLikeliest, targetLogProbs, cachedTokens }: Samples): Uint8Array {
  return toBinary(
    SampleResponseSchema,
    create(SampleResponseSchema, {
      sequences: sequences.map(({ stopReason, tokens, logProbs, likeliest }) =>
        create(SampledSequenceSchema, {
          stopReason: STOP_REASONS.indexOf(stopReason),
          tokens: bytesOf(tokens),
          logprobs: bytesOf(logProbs),
          ...(likeliest === null ? {} : { topkSampledLogprobs: likeliestMessage(likeliest) }),
        }),
      ),
      ...(promptLogProbs === null ? {} : { promptLogprobs: bytesOf(promptLogProbs) }),
      ...(promptLikeliest === null ? {} : { topkPromptLogprobs: likeliestMessage(promptLikeliest) }),
      ...(targetLogProbs === null ? {} : { targetPromptLogprobs: create(TensorSchema, tensorBytes(targetLogProbs)) }),
      promptCacheHitTokens: cachedTokens,
    }),
  );
}

/** Throws WireError, also for another number of log-probs than a prompt of `promptTokens` has. @param promptTokens null: any number */
export function decodeSamples(bytes: Uint8Array, promptTokens: number | null = null): Samples {
  const message = decoded('The result of a sampling request', () => fromBinary(SampleResponseSchema, bytes));
  const sequences = message.sequences.map(({ stopReason, tokens, logprobs, topkSampledLogprobs }, i): SampledSequence => {
    const reason = STOP_REASONS[stopReason];
    if (reason === undefined) throw new WireError(`sequences[${i}].stop_reason is ${stopReason}, which nobody knows.`);
    const ids = integers(tokens, INT32, `sequences[${i}].tokens`);
    const logProbs = floats(logprobs ?? new Uint8Array(0), FLOAT32, `sequences[${i}].logprobs`);
    assertEach(ids, logProbs, i);
    return { stopReason: reason, tokens: ids, logProbs, likeliest: topkSampledLogprobs === undefined ? null : likeliestOf(topkSampledLogprobs) };
  });
  const listed = message.promptLogprobs === undefined ? null : floats(message.promptLogprobs, FLOAT32, 'prompt_logprobs');
  return {
    sequences,
    promptLogProbs: listed === null || promptTokens === null ? listed : wholePrompt(listed, promptTokens),
    promptLikeliest: message.topkPromptLogprobs === undefined ? null : likeliestOf(message.topkPromptLogprobs),
    targetLogProbs: message.targetPromptLogprobs === undefined ? null : tensorOf(message.targetPromptLogprobs, 'target_prompt_logprobs'),
    cachedTokens: message.promptCacheHitTokens,
  };
}

/** As SDKs to 0.24.1 read it. */
export function samplesJson({ sequences, promptLogProbs, promptLikeliest, targetLogProbs, cachedTokens }: Samples): object {
  return {
    sequences: sequences.map(({ stopReason, tokens, logProbs, likeliest }) => ({
      stop_reason: stopReason,
      tokens: [...tokens],
      logprobs: [...logProbs],
      ...(likeliest === null ? {} : { topk_logprobs: likeliestJson(likeliest) }),
    })),
    prompt_logprobs: promptLogProbs === null ? null : [...promptLogProbs].map((value) => (Number.isNaN(value) ? null : value)),
    topk_prompt_logprobs: promptLikeliest === null ? null : likeliestJson(promptLikeliest),
    ...(targetLogProbs === null ? {} : { target_prompt_logprobs: tensorJson(targetLogProbs) }),
    prompt_cache_hit_tokens: cachedTokens,
  };
}

/**
 * What was asked of a prompt of `promptTokens`. SkyRL leaves the first token out of `prompt_logprobs`, the hosted service lists null for it. Throws WireError.
 */
export function samplesOf({ sequences, prompt_logprobs: prompt = null }: JsonSampleResponse, promptTokens: number): Samples {
  const listed = prompt === null ? null : Float32Array.from(prompt, (value) => value ?? NaN);
  return {
    sequences: sequences.map(({ stop_reason: stopReason, tokens, logprobs }, i) => {
      const [ids, logProbs] = [Int32Array.from(tokens), Float32Array.from(logprobs ?? [], (value) => value ?? NaN)];
      assertEach(ids, logProbs, i);
      return { stopReason, tokens: ids, logProbs, likeliest: null };
    }),
    promptLogProbs: listed === null ? null : wholePrompt(listed, promptTokens),
    promptLikeliest: null,
    targetLogProbs: null,
    cachedTokens: 0,
  };
}

/** One log-prob per token of the prompt. Throws WireError. */
function wholePrompt(listed: Float32Array, promptTokens: number): Float32Array {
  if (listed.length === promptTokens) return listed;
  if (listed.length === promptTokens - 1) return Float32Array.of(NaN, ...listed);
  throw new WireError(`prompt_logprobs has ${listed.length} values for a prompt of ${promptTokens} tokens.`);
}

function assertEach({ length }: Int32Array, logProbs: Float32Array, i: number): void {
  if (length !== logProbs.length) throw new WireError(`sequences[${i}] has ${length} tokens and ${logProbs.length} log-probs.`);
}

function likeliestMessage({ k, ids, logProbs }: LikeliestTokens): TopkLogprobs {
  return create(TopkLogprobsSchema, { tokenIds: bytesOf(ids), logprobs: bytesOf(logProbs), k, length: ids.length / k });
}

/** Throws WireError. */
function likeliestOf({ tokenIds, logprobs, k, length }: TopkLogprobs): LikeliestTokens {
  const [ids, logProbs] = [integers(tokenIds, INT32, 'token_ids'), floats(logprobs, FLOAT32, 'logprobs')];
  if (ids.length !== k * length || logProbs.length !== ids.length)
    throw new WireError(`The likeliest tokens do not fit their shape, ${length} × ${k}.`);
  return { k, ids, logProbs };
}

/** For each place a list of [id, log-prob]; null for a place without any. */
function likeliestJson({ k, ids, logProbs }: LikeliestTokens): object {
  const row = (at: number) =>
    Array.from({ length: k }, (_, i) => [ids[at * k + i]!, logProbs[at * k + i]!]).filter(([, logProb]) => logProb !== NO_LOG_PROB);
  return Array.from({ length: ids.length / k }, (_, at) => row(at)).map((pairs) => (pairs.length === 0 ? null : pairs));
}
