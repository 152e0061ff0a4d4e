/** The answers of the environment server, for the description of its API. */
import {
  anyOf,
  choice,
  closed,
  count,
  countOrNull,
  flag,
  json,
  listOf,
  number,
  only,
  text,
  textOrNull,
  textOrNumber,
  tokenIds,
} from '../json-schema.ts';
import { optionalColumns } from '../rollout-columns.ts';
import { RolloutsEndSchema } from './rollouts-request.ts';
import { ServedRolloutSchema, wireMessageSchema } from './served-rollout.ts';

export const RefusalSchema = closed({ error: closed({ type: text, message: text }) });

export const HealthSchema = closed({ status: only('healthy'), env_id: text, version: text, episodes: count, rollouts: count });

export const TasksSchema = closed({
  env_id: text,
  split: choice('train', 'eval'),
  total: count,
  /** Names of all rewards and metrics; a rollout lacks those that failed. */
  metrics: listOf(text),
  tasks: listOf(closed({ example_id: textOrNumber, prompt: listOf(wireMessageSchema), answer: textOrNull, info: json }, optionalColumns)),
});

const turn = { episode_id: text, turn: count, done: only(false), stop: listOf(text), max_new_tokens: countOrNull } as const;

/** What the environment said that the turn before was worth by itself; absent if it said nothing. */
const rewarded = { turn_reward: number } as const;

const EpisodeAnswerSchema = anyOf(
  closed({ ...turn, append_ids: tokenIds, context_length: count }, rewarded),
  closed({ ...turn, messages: listOf(wireMessageSchema) }, { tools: listOf(json), ...rewarded }),
  closed({ episode_id: text, done: only(true), rollout: ServedRolloutSchema }, rewarded),
  closed({ episode_id: textOrNull, error: closed({ type: text, message: text, retryable: flag }) }),
);

export const EpisodesAnswerSchema = closed({ episodes: listOf(EpisodeAnswerSchema) });

export const DeletedSchema = closed({ episode_id: text, deleted: only(true) });

/** Each line of the answer to POST /v1/rollouts. */
export const RolloutLineSchema = anyOf(ServedRolloutSchema, RolloutsEndSchema);
