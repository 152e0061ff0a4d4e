/**
 * What a vLLM server answers, as far as this package reads it. Unknown fields are let through: every release adds some. Checked once per
 * answer; what is wrong with it is told in one line.
 */
import { Ajv, type ValidateFunction } from 'ajv';
import { type Static, type TSchema, Type } from 'typebox';

const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const TokenIds = Type.Array(Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1 }));

/** `POST /v1/completions` with `return_token_ids` and `logprobs: 0`. Null log-probs stand for values that JSON cannot carry. */
const CompletionSchema = Type.Object({
  choices: Type.Array(
    Type.Object({
      text: Type.String(),
      token_ids: TokenIds,
      logprobs: Type.Object({ token_logprobs: Type.Array(Nullable(Type.Number())), tokens: Type.Array(Type.String()) }),
      finish_reason: Nullable(Type.String()),
      stop_reason: Type.Optional(Type.Union([Type.String(), Type.Integer(), Type.Null()])),
      prompt_token_ids: Type.Optional(Nullable(TokenIds)),
    }),
    { minItems: 1 },
  ),
  usage: Type.Optional(
    Nullable(
      Type.Object({
        prompt_tokens: Type.Optional(Type.Number()),
        completion_tokens: Type.Optional(Nullable(Type.Number())),
        prompt_tokens_details: Type.Optional(Nullable(Type.Object({ cached_tokens: Type.Optional(Nullable(Type.Number())) }))),
      }),
    ),
  ),
});
export type VllmCompletion = Static<typeof CompletionSchema>;

/** `POST /tokenize`. `token_strs` are the vocabulary's own spellings, present when asked for. */
const TokenizeSchema = Type.Object({
  tokens: TokenIds,
  max_model_len: Type.Optional(Nullable(Type.Number())),
  token_strs: Type.Optional(Nullable(Type.Array(Nullable(Type.String())))),
});
export type VllmTokenize = Static<typeof TokenizeSchema>;

/** `POST /detokenize`. */
const DetokenizeSchema = Type.Object({ prompt: Type.String() });
export type VllmDetokenize = Static<typeof DetokenizeSchema>;

/** `GET /v1/models`. An adapter's card names its base model as `parent`. */
const ModelsSchema = Type.Object({
  data: Type.Array(
    Type.Object({
      id: Type.String(),
      parent: Type.Optional(Nullable(Type.String())),
      max_model_len: Type.Optional(Nullable(Type.Number())),
      owned_by: Type.Optional(Nullable(Type.String())),
    }),
  ),
});
export type VllmModels = Static<typeof ModelsSchema>;

/** One kind of answer: `check` gives null, or what is wrong with the value. */
export interface WireShape<T> {
  readonly check: (value: unknown) => string | null;
  /** Carries the static type; never set. */
  readonly value?: T;
}

export const VllmCompletionShape: WireShape<VllmCompletion> = shape(CompletionSchema);
export const VllmTokenizeShape: WireShape<VllmTokenize> = shape(TokenizeSchema);
export const VllmDetokenizeShape: WireShape<VllmDetokenize> = shape(DetokenizeSchema);
export const VllmModelsShape: WireShape<VllmModels> = shape(ModelsSchema);

function shape<T>(schema: TSchema): WireShape<T> {
  let validate: ValidateFunction | undefined;
  return {
    check(value) {
      validate ??= new Ajv({ strict: true, allowUnionTypes: true }).compile(schema);
      if (validate(value)) return null;
      const { instancePath = '', message = 'is not valid' } = validate.errors?.[0] ?? {};
      return `${instancePath === '' ? 'the answer' : instancePath} ${message}`;
    },
  };
}

/** The text of an error in either of the server's shapes, `{error: {message, param}}` and `{detail}`; null where there is none. */
export function parseVllmError(body: string): { readonly message: string; readonly param: string | null } | null {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  if (!isObject(value)) return null;
  // Some gateways give the fields without the envelope.
  const error = isObject(value['error']) ? value['error'] : value;
  const message = error['message'] ?? error['detail'];
  if (typeof message !== 'string') return null;
  return { message, param: typeof error['param'] === 'string' ? error['param'] : null };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
