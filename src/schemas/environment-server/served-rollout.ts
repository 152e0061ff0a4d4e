/**
 * A rollout in an answer of the environment server: a line of `vf-export` that also exists for a failed rollout. `reward` is null exactly if `error` is not. In chat
 * kind the columns of tokens are absent, and `messages` takes their place.
 */
import type { XStatic } from 'typebox/schema';
import { byName, closed, count, flag, listOf, nullable, number, numberOrNull, object, only, text, textOrNull, textOrNumber } from '../json-schema.ts';
import { encodeWithFloats } from '../float-json.ts';
import {
  branchFacts,
  logProbsMode,
  messageCalls,
  optionalColumns,
  optionalTokenColumns,
  ownOfBranch,
  rolloutColumns,
  tokenColumns,
  segmentVersions,
  tokenSegment,
} from '../rollout-columns.ts';
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

/** A branch beyond the first, whose columns are those of the rollout itself. */
const servedBranch = closed(
  { ...branchFacts },
  {
    ...tokenColumns,
    segments: listOf(closed(tokenSegment, segmentVersions)),
    ...optionalTokenColumns,
    ...turnColumns,
    ...ownOfBranch,
    messages: listOf(wireMessageSchema),
  },
);

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
    /** Number of generations, of all branches. */
    num_turns: count,
  },
  {
    ...tokenColumns,
    segments: listOf(closed(tokenSegment, segmentVersions)),
    /** The prompt, then everything that followed. */
    messages: listOf(wireMessageSchema),
    ...optionalColumns,
    ...optionalTokenColumns,
    ...turnColumns,
    /** The own reward of the first of several branches, if the environment gives one. */
    branch_reward: number,
    /** The branches of an agent's rollout from the second on; the columns of tokens, turns and messages are those of the first. */
    branches: listOf(servedBranch),
  },
);
export type ServedRollout = XStatic<typeof ServedRolloutSchema>;

/** The rollout as JSON, with rewards, metrics and log-probs as floats, as `vf-export` writes them. */
export const servedLine = encodeWithFloats(ServedRolloutSchema);
