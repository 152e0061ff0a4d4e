/** The request of `POST /v1/rollouts`: the server plays against a policy server that the caller names. */
import type { XStatic } from 'typebox/schema';
import { atLeastOne, choice, closed, count, filledText, flag, json, listOf, only, serverUrl, textOrNumber } from '../json-schema.ts';

/** Most rollouts of one request. */
export const MOST_ROLLOUTS = 65_536;

export const RolloutsRequestSchema = closed(
  {
    example_ids: { ...listOf(textOrNumber), minItems: 1, maxItems: MOST_ROLLOUTS },
    policy: closed(
      { base_url: serverUrl },
      {
        /** If it is left out: the server's only model. */
        model: filledText,
        /** Environment variable of the environment server that holds the policy server's key. */
        api_key_var: filledText,
        version: count,
        /** `auto`: by token ids if the server can. */
        kind: choice('auto', 'tokens', 'chat'),
      },
    ),
  },
  {
    rollouts_per_example: atLeastOne,
    sampling: json,
    max_concurrent: atLeastOne,
    request_id: { ...filledText, maxLength: 200 },
    /** True if the answer has messages as well as tokens. */
    messages: flag,
  },
);
export type RolloutsRequest = XStatic<typeof RolloutsRequestSchema>;

/** The last line of the answer. */
export const RolloutsEndSchema = closed({ done: only(true), finished: count, failed: count });
export type RolloutsEnd = XStatic<typeof RolloutsEndSchema>;
