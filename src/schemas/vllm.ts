/**
 * Answers of a vLLM server, limited to the fields that this package reads. Unknown fields are allowed: every release adds some. Each answer is
 * checked once; a fault is described in one line.
 */
import type { XStatic } from 'typebox/schema';
import { isObject } from './is-object.ts';
import { byName, count, filledListOf, json, listOf, nullable, number, numberOrNull, object, text, textOrNull, tokenIds } from './json-schema.ts';
import { schemaCheck, schemaProblem } from './schema-check.ts';
import { jsonOrNull } from './json-or-null.ts';

/** `POST /v1/completions` with `return_token_ids` and `logprobs`. Null log-probs stand for values that JSON cannot carry. */
/** Checked where it is asked for. */
const anything = {} as const;
const completionChoice = object(
  {
    text,
    token_ids: tokenIds,
    logprobs: object({ token_logprobs: listOf(numberOrNull), tokens: listOf(text) }, { top_logprobs: anything }),
    finish_reason: textOrNull,
  },
  { stop_reason: { type: ['string', 'integer', 'null'] }, prompt_token_ids: nullable(tokenIds) },
);
const completionUsage = object(
  {},
  {
    prompt_tokens: number,
    completion_tokens: numberOrNull,
    prompt_tokens_details: nullable(object({}, { cached_tokens: numberOrNull })),
  },
);
const completionSchema = object({ choices: filledListOf(completionChoice) }, { usage: nullable(completionUsage) });
export type VllmCompletion = XStatic<typeof completionSchema>;

/** `POST /inference/v1/generate` with `return_token_ids`, `logprobs: 0` and `output_mode: "text"`. */
const generationChoice = object(
  {
    text,
    token_ids: tokenIds,
    logprobs: object({
      content: listOf(object({ token: text, logprob: numberOrNull }, { top_logprobs: listOf(object({ token: text, logprob: numberOrNull })) })),
    }),
    finish_reason: textOrNull,
  },
  {
    stop_reason: { type: ['string', 'integer', 'null'] },
    /** The labels of the weights that sampled the tokens [start, end). */
    weight_versions: nullable(listOf(object({ version: text, start: count, end: count }))),
  },
);
const generationSchema = object(
  { choices: filledListOf(generationChoice) },
  {
    usage: nullable(completionUsage),
    prompt_token_ids: nullable(tokenIds),
    mm_placeholders: nullable(object({}, { image: nullable(listOf(object({ offset: number, length: number }))) })),
  },
);
export type VllmGeneration = XStatic<typeof generationSchema>;

/** `POST /tokenize`. `token_strs` are the vocabulary's own spellings, present if requested. */
const tokenizeSchema = object({ tokens: tokenIds }, { max_model_len: numberOrNull, token_strs: nullable(listOf(textOrNull)) });
export type VllmTokenize = XStatic<typeof tokenizeSchema>;

/** `POST /detokenize`. */
const detokenizeSchema = object({ prompt: text });
export type VllmDetokenize = XStatic<typeof detokenizeSchema>;

/** `GET /v1/models`. An adapter's card names its base model as `parent`. */
const modelsSchema = object({ data: listOf(object({ id: text }, { parent: textOrNull, max_model_len: numberOrNull, owned_by: textOrNull })) });
export type VllmModels = XStatic<typeof modelsSchema>;

/** `GET /openapi.json`: the fields of each route's request. */
const serverFieldsSchema = object({}, { components: object({}, { schemas: byName(object({}, { properties: json })) }) });
export type ServerFields = XStatic<typeof serverFieldsSchema>;

/** One kind of answer: `check` returns null, or a description of the fault in the value. */
export interface WireShape<T> {
  readonly check: (value: unknown) => string | null;
  /** Only carries the static type; never set. */
  readonly value?: T;
}

export const VllmCompletionShape: WireShape<VllmCompletion> = shape(completionSchema);
export const VllmGenerationShape: WireShape<VllmGeneration> = shape(generationSchema);
export const VllmTokenizeShape: WireShape<VllmTokenize> = shape(tokenizeSchema);
export const VllmDetokenizeShape: WireShape<VllmDetokenize> = shape(detokenizeSchema);
export const ServerFieldsShape: WireShape<ServerFields> = shape(serverFieldsSchema);
export const VllmModelsShape: WireShape<VllmModels> = shape(modelsSchema);

function shape<S extends object>(schema: S): WireShape<XStatic<S>> {
  return {
    check(value) {
      const validate = schemaCheck(schema);
      return validate(value) ? null : schemaProblem(validate, 'the answer');
    },
  };
}

/** Reads an error in either of the server's formats, `{error: {message, param}}` and `{detail}`; null if it is neither. */
export function parseVllmError(body: string): { readonly message: string; readonly param: string | null } | null {
  const value = jsonOrNull(body);
  if (!isObject(value)) return null;
  // Some gateways return the fields without the envelope.
  const error = isObject(value['error']) ? value['error'] : value;
  const message = error['message'] ?? error['detail'];
  if (typeof message !== 'string') return null;
  return { message, param: typeof error['param'] === 'string' ? error['param'] : null };
}
