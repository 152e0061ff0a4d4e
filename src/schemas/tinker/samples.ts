/** `POST asample` and its result as JSON. The request is JSON in every version. */
import type { XStatic } from 'typebox/schema';
import {
  anyOf,
  atLeastOne,
  choice,
  count,
  filledListOf,
  flag,
  integer,
  listOf,
  nullable,
  number,
  numberOrNull,
  object,
  text,
  tokenIds,
} from '../json-schema.ts';
import { inputSchema, tensorSchema } from './passes.ts';

const samplingParamsSchema = object(
  {},
  {
    max_tokens: nullable(atLeastOne),
    seed: nullable(integer),
    /** Null is the model's own end token, an empty list no end at all. */
    stop: nullable(anyOf(text, listOf(text), tokenIds)),
    temperature: nullable(number),
    top_k: nullable(integer),
    top_p: nullable(number),
  },
);
export const sampleRequestSchema = object(
  { prompt: inputSchema, sampling_params: samplingParamsSchema },
  {
    num_samples: atLeastOne,
    sampling_session_id: nullable(text),
    base_model: nullable(text),
    model_path: nullable(text),
    seq_id: nullable(count),
    prompt_logprobs: nullable(flag),
    topk_prompt_logprobs: nullable(count),
    topk_sample_logprobs: nullable(count),
    prompt_logprobs_last_n: nullable(atLeastOne),
    target_prompt_logprobs: nullable(tensorSchema),
    prompt_alt_tokens_k: nullable(count),
    record_stability_info: nullable(flag),
  },
);
const sequenceSchema = object({ stop_reason: choice('stop', 'length'), tokens: tokenIds }, { logprobs: nullable(listOf(numberOrNull)) });
export const sampleResponseSchema = object({ sequences: filledListOf(sequenceSchema) }, { prompt_logprobs: nullable(listOf(numberOrNull)) });

export type JsonSampleResponse = XStatic<typeof sampleResponseSchema>;
