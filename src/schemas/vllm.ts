/**
 * Answers of a vLLM server, limited to the fields that this package reads. Unknown fields are allowed: every release adds some. Each answer is
 * checked once; a fault is described in one line.
 */
import type { XStatic } from 'typebox/schema';
import { schemaCheck } from './schema-check.ts';
import { isObject } from './is-object.ts';

const tokenIds = { type: 'array', items: { type: 'integer', minimum: 0, maximum: 2 ** 31 - 1 } } as const;
const text = { type: 'string' } as const;
const textOrNull = { type: ['string', 'null'] } as const;
const numberOrNull = { type: ['number', 'null'] } as const;
const nothing = { type: 'null' } as const;

/** `POST /v1/completions` with `return_token_ids` and `logprobs: 0`. Null log-probs stand for values that JSON cannot carry. */
const completionSchema = {
  type: 'object',
  required: ['choices'],
  properties: {
    choices: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        required: ['text', 'token_ids', 'logprobs', 'finish_reason'],
        properties: {
          text,
          token_ids: tokenIds,
          logprobs: {
            type: 'object',
            required: ['token_logprobs', 'tokens'],
            properties: { token_logprobs: { type: 'array', items: numberOrNull }, tokens: { type: 'array', items: text } },
          },
          finish_reason: textOrNull,
          stop_reason: { type: ['string', 'integer', 'null'] },
          prompt_token_ids: { anyOf: [tokenIds, nothing] },
        },
      },
    },
    usage: {
      anyOf: [
        {
          type: 'object',
          properties: {
            prompt_tokens: { type: 'number' },
            completion_tokens: numberOrNull,
            prompt_tokens_details: { anyOf: [{ type: 'object', properties: { cached_tokens: numberOrNull } }, nothing] },
          },
        },
        nothing,
      ],
    },
  },
} as const;
export type VllmCompletion = XStatic<typeof completionSchema>;

/** `POST /tokenize`. `token_strs` are the vocabulary's own spellings, present if requested. */
const tokenizeSchema = {
  type: 'object',
  required: ['tokens'],
  properties: { tokens: tokenIds, max_model_len: numberOrNull, token_strs: { anyOf: [{ type: 'array', items: textOrNull }, nothing] } },
} as const;
export type VllmTokenize = XStatic<typeof tokenizeSchema>;

/** `POST /detokenize`. */
const detokenizeSchema = { type: 'object', required: ['prompt'], properties: { prompt: text } } as const;
export type VllmDetokenize = XStatic<typeof detokenizeSchema>;

/** `GET /v1/models`. An adapter's card names its base model as `parent`. */
const modelsSchema = {
  type: 'object',
  required: ['data'],
  properties: {
    data: {
      type: 'array',
      items: { type: 'object', required: ['id'], properties: { id: text, parent: textOrNull, max_model_len: numberOrNull, owned_by: textOrNull } },
    },
  },
} as const;
export type VllmModels = XStatic<typeof modelsSchema>;

/** One kind of answer: `check` returns null, or what is wrong with the value. */
export interface WireShape<T> {
  readonly check: (value: unknown) => string | null;
  /** Only carries the static type; never set. */
  readonly value?: T;
}

export const VllmCompletionShape: WireShape<VllmCompletion> = shape(completionSchema);
export const VllmTokenizeShape: WireShape<VllmTokenize> = shape(tokenizeSchema);
export const VllmDetokenizeShape: WireShape<VllmDetokenize> = shape(detokenizeSchema);
export const VllmModelsShape: WireShape<VllmModels> = shape(modelsSchema);

function shape<T>(schema: object): WireShape<T> {
  return {
    check(value) {
      const validate = schemaCheck<T>(schema);
      if (validate(value)) return null;
      const { instancePath = '', message = 'is not valid' } = validate.errors?.[0] ?? {};
      return `${instancePath === '' ? 'the answer' : instancePath} ${message}`;
    },
  };
}

/** Reads an error in either of the server's formats, `{error: {message, param}}` and `{detail}`; null if it is neither. */
export function parseVllmError(body: string): { readonly message: string; readonly param: string | null } | null {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  if (!isObject(value)) return null;
  // Some gateways return the fields without the envelope.
  const error = isObject(value['error']) ? value['error'] : value;
  const message = error['message'] ?? error['detail'];
  if (typeof message !== 'string') return null;
  return { message, param: typeof error['param'] === 'string' ? error['param'] : null };
}
