/** Answers of a server with vLLM's LoRA routes, limited to the fields that the publisher reads. Unknown fields are allowed: every release adds some. */
import type { XStatic } from 'typebox/schema';
import { byName, filledListOf, integer, listOf, nullable, numberOrNull, object, text, textOrNull } from './json-schema.ts';
import { schemaCheck } from './schema-check.ts';

/** `GET /v1/models`. In an adapter's card, `root` is its directory on the server and `parent` its base. */
const cardsSchema = object({ data: listOf(object({ id: text }, { root: textOrNull, parent: textOrNull })) });
export type LoraCards = XStatic<typeof cardsSchema>;
export type LoraCard = LoraCards['data'][number];

/** `POST /v1/completions` for one token with its log-prob. Null log-probs stand for values that JSON cannot carry. */
const judgementChoice = object(
  {},
  {
    token_ids: nullable(listOf(integer)),
    logprobs: nullable(object({ token_logprobs: listOf(numberOrNull) })),
    prompt_logprobs: nullable(listOf(nullable(byName(object({ logprob: numberOrNull }))))),
  },
);
const judgementSchema = object({ choices: filledListOf(judgementChoice) });
export type LoraJudgement = XStatic<typeof judgementSchema>;

/** `POST /inference/v1/generate` for one token with its log-prob, behind a prompt that may hold images. */
const generationChoice = object(
  {},
  { token_ids: nullable(listOf(integer)), logprobs: nullable(object({ content: listOf(object({ logprob: numberOrNull })) })) },
);
const placeholders = object({}, { image: nullable(listOf(object({ offset: integer, length: integer }))) });
const generationSchema = object(
  { choices: filledListOf(generationChoice) },
  {
    prompt_token_ids: nullable(listOf(integer)),
    prompt_logprobs: nullable(listOf(nullable(byName(object({ logprob: numberOrNull }))))),
    mm_placeholders: nullable(placeholders),
  },
);
export type LoraGeneration = XStatic<typeof generationSchema>;

/** `GET /server_info?config_format=json`, only in development mode. `lora_config` is null if LoRA is off. */
const serverInfoSchema = object({
  vllm_config: object({ lora_config: nullable(object({}, { max_lora_rank: integer, max_loras: integer })) }),
});
export type LoraServerInfo = XStatic<typeof serverInfoSchema>;

/** Returns the value if it fits the schema, else null. */
export function parseLoraCards(value: unknown): LoraCards | null {
  return schemaCheck(cardsSchema)(value) ? value : null;
}

export function parseLoraJudgement(value: unknown): LoraJudgement | null {
  return schemaCheck(judgementSchema)(value) ? value : null;
}

export function parseLoraGeneration(value: unknown): LoraGeneration | null {
  return schemaCheck(generationSchema)(value) ? value : null;
}

export function parseLoraServerInfo(value: unknown): LoraServerInfo | null {
  return schemaCheck(serverInfoSchema)(value) ? value : null;
}
