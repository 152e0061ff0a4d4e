/** The columns that all records of a rollout share: `results.jsonl`, `tokens.jsonl`, the rollouts of a training run, `asked.jsonl` and exports. */
import { atLeastOne, choice, count, countOrNull, flag, listOf, nullable, number, numberOrNull, object, only, text } from './json-schema.ts';

export const rolloutColumns = {
  rollout_id: text,
  /** Rollouts of one example share it. */
  group_id: text,
  stop_condition: text,
  is_truncated: flag,
} as const;

/** Columns of results and of training rollouts that an export leaves out or writes in another way. */
export const recordColumns = {
  ...rolloutColumns,
  rollout_index: count,
  /** Null for a rollout that failed. */
  reward: numberOrNull,
  is_cut: flag,
  policy_version: count,
  model: text,
  num_turns: count,
  segments: listOf(
    object(
      { kind: text, text },
      {
        reasoning: text,
        /** Number of its messages in `completion`; absent unless the policy did not write one of them that has the role of the assistant. */
        message_count: count,
      },
    ),
  ),
} as const;

export const optionalColumns = {
  /** The row's task, in a group of environments. */
  task: text,
  /** The role that the policy played; absent for an environment with one speaker. */
  role: text,
} as const;

export const usage = { input_tokens: count, output_tokens: count, cached_tokens: countOrNull } as const;

export const tokenSegment = { kind: text, start: count, end: count, version: countOrNull } as const;

export const segmentVersions = {
  /** The versions that sampled it, in order, if new weights were published meanwhile; `version` is then the oldest. */
  versions: listOf(object({ version: count, tokens: atLeastOne })),
} as const;

export const tokenColumns = {
  /** Prompt and response. [T] */
  token_ids: listOf(count),
  /** 1 on the tokens that the policy sampled. [T] */
  loss_mask: listOf(choice(0, 1)),
  /** Natural logarithms; null exactly where the mask is 0. [T] */
  logprobs: listOf(numberOrNull),
  /** Tokens before the first sampled one: `segments[0]` is the prompt. */
  prompt_length: count,
  /** In order and without gaps; `[start, end)` in tokens. `version` is the policy's, null in segments that it did not write. */
  segments: listOf(object(tokenSegment, segmentVersions)),
} as const;

/** Columns of a message that calls tools, or answers a call. */
export const messageCalls = {
  tool_calls: listOf(object({ id: text, name: text, arguments: text }, { /** Why a malformed call could not be read. */ malformed: text })),
  tool_call_id: text,
} as const;

export const picture = { sha256: text, media_type: text, width: count, height: count } as const;

/** An image among the tokens of a rollout. */
export const placedPicture = { ...picture, /** Its first token. */ offset: count, /** Its tokens. */ length: count } as const;

export const optionalTokenColumns = {
  /** The images of the prompt and the observations, in order; absent without any. */
  images: listOf(object(placedPicture)),
} as const;

/** Absent for a rollout of one branch. */
export const branchPlace = {
  /** From 0 up. */
  branch: count,
  /** The branch that holds the turns with which its prompt begins; null if it shares no turn of the policy with another. */
  parent: countOrNull,
} as const;

/** Why the messages of a branch left those of another. */
export const fork = object({
  /** `tools`, `system`, `history`, `retry`, `sample` or `side`. */
  kind: text,
  /** Number of messages in common. */
  at: count,
  /** What differs, in one line. */
  difference: text,
});

/** Columns of a branch in all files. */
export const branchFacts = { parent: branchPlace.parent, /** Null for the first. */ fork: nullable(fork) } as const;

/** Absent where they are the rollout's. */
export const ownOfBranch = {
  role: text,
  reward: number,
  /** The last turn of the rollout is in it, and not in the last branch. */
  ends_last: only(true),
} as const;

export const finish = choice('stop', 'length');
export const logProbsMode = choice('raw', 'processed', 'unknown', 'none');
