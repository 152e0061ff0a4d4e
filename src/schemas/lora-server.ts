/** Answers of a server with vLLM's LoRA routes, limited to the fields that the publisher reads. Unknown fields are allowed: every release adds some. */
import type { XStatic } from 'typebox/schema';
import { schemaCheck } from './schema-check.ts';

const text = { type: 'string' } as const;
const textOrNull = { type: ['string', 'null'] } as const;
const numberOrNull = { type: ['number', 'null'] } as const;

/** `GET /v1/models`. In an adapter's card, `root` is its directory on the server and `parent` its base. */
const cardsSchema = {
  type: 'object',
  required: ['data'],
  properties: {
    data: { type: 'array', items: { type: 'object', required: ['id'], properties: { id: text, root: textOrNull, parent: textOrNull } } },
  },
} as const;
export type LoraCards = XStatic<typeof cardsSchema>;
export type LoraCard = LoraCards['data'][number];

/** `POST /v1/completions` for one token with its log-prob. Null log-probs stand for values that JSON cannot carry. */
const judgementSchema = {
  type: 'object',
  required: ['choices'],
  properties: {
    choices: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        properties: {
          token_ids: { anyOf: [{ type: 'array', items: { type: 'integer' } }, { type: 'null' }] },
          logprobs: {
            anyOf: [
              { type: 'object', required: ['token_logprobs'], properties: { token_logprobs: { type: 'array', items: numberOrNull } } },
              { type: 'null' },
            ],
          },
          prompt_logprobs: {
            anyOf: [
              {
                type: 'array',
                items: {
                  anyOf: [
                    { type: 'object', additionalProperties: { type: 'object', required: ['logprob'], properties: { logprob: numberOrNull } } },
                    { type: 'null' },
                  ],
                },
              },
              { type: 'null' },
            ],
          },
        },
      },
    },
  },
} as const;
export type LoraJudgement = XStatic<typeof judgementSchema>;

/** `GET /server_info?config_format=json`, only in development mode. `lora_config` is null if LoRA is off. */
const serverInfoSchema = {
  type: 'object',
  required: ['vllm_config'],
  properties: {
    vllm_config: {
      type: 'object',
      required: ['lora_config'],
      properties: {
        lora_config: {
          anyOf: [{ type: 'object', properties: { max_lora_rank: { type: 'integer' }, max_loras: { type: 'integer' } } }, { type: 'null' }],
        },
      },
    },
  },
} as const;
export type LoraServerInfo = XStatic<typeof serverInfoSchema>;

/** Returns the value if it fits the schema, else null. */
export function parseLoraCards(value: unknown): LoraCards | null {
  return schemaCheck<LoraCards>(cardsSchema)(value) ? value : null;
}

export function parseLoraJudgement(value: unknown): LoraJudgement | null {
  return schemaCheck<LoraJudgement>(judgementSchema)(value) ? value : null;
}

export function parseLoraServerInfo(value: unknown): LoraServerInfo | null {
  return schemaCheck<LoraServerInfo>(serverInfoSchema)(value) ? value : null;
}
