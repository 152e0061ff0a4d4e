/**
 * A rollout in an answer of the environment server: a line of `vf-export` that also exists for a failed rollout. `reward` is null exactly if `error` is not. In chat
 * kind the columns of tokens are absent, and `messages` takes their place.
 */
import type { XStatic } from 'typebox/schema';
import { byName, closed, count, flag, listOf, nullable, number, numberOrNull, object, only, text, textOrNull, textOrNumber } from '../json-schema.ts';
import { encodeWithFloats } from '../float-json.ts';
import { logProbsMode, messageCalls, optionalColumns, rolloutColumns, tokenColumns, tokenSegment } from '../rollout-columns.ts';
import { anySampling } from '../sampling-columns.ts';
import { turnColumns } from '../turn-columns.ts';

const servedError = closed(
  {
    /** The error's class: `RetrievalError`, `NumericPolicyError`, ... */
    type: text,
    message: text,
    /** Another attempt at the rollout may succeed. */
    retryable: flag,
    phase: text,
  },
  { reason: text },
);

export const wireMessageSchema = object({ role: text, content: text }, messageCalls);

export const ServedRolloutSchema = closed(
  {
    ...rolloutColumns,
    schema_version: only(1),
    example_id: textOrNumber,
    reward: numberOrNull,
    error: nullable(servedError),
    metrics: byName(number),
    policy: closed({ model: text, version: count }),
    sampling: anySampling,
    logprobs_mode: logProbsMode,
    tokenizer_hash: textOrNull,
    /** Number of generations. */
    num_turns: count,
  },
  {
    ...tokenColumns,
    segments: listOf(closed(tokenSegment)),
    /** The prompt, then everything that followed. */
    messages: listOf(wireMessageSchema),
    ...optionalColumns,
    ...turnColumns,
  },
);
export type ServedRollout = XStatic<typeof ServedRolloutSchema>;

/** The rollout as JSON, with rewards, metrics and log-probs as floats, as `vf-export` writes them. */
export const servedLine = encodeWithFloats(ServedRolloutSchema);
