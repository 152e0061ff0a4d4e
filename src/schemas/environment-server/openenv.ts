/**
 * The messages of OpenEnv's protocol, version 0.10: frames of its WebSocket and bodies of its HTTP routes.
 * Source: `openenv.core.env_server.types`. The action, observation and state are this package's own, because the protocol leaves them to the environment.
 */
import type { XStatic } from 'typebox/schema';
import { encodeWithFloats } from '../float-json.ts';
import {
  byName,
  closed,
  count,
  filledText,
  flag,
  integer,
  json,
  listOf,
  nullable,
  number,
  numberOrNull,
  object,
  text,
  textOrNull,
  textOrNumber,
} from '../json-schema.ts';
import { optionalColumns } from '../rollout-columns.ts';
import { wireMessageSchema } from './served-rollout.ts';

/** The content of `metadata`: the state of the episode, as opposed to the texts that the model is shown. */
const place = {
  episode_id: text,
  example_id: textOrNumber,
  /** Most tokens that the environment keeps of the next action; null if it does not say, and at the end. */
  max_new_tokens: nullable(count),
} as const;
/**
 * `kept`: the action as it is in the conversation, cut at a stop string, and with a stop string that the model's server left out. A client that keeps the history
 * appends this.
 */
const stepMetadata = closed({ ...place, kept: text });

/** Exactly one required string, so that a client that knows no particular environment sends a model's words unchanged. */
export const ActionSchema = {
  title: 'TextAction',
  ...closed(
    { text: { ...text, description: 'What the model wrote, with the stop string that ended it' } },
    { metadata: { ...json, description: 'Ignored, except finish_reason: "length" says that the text was cut off' } },
  ),
} as const;

const ended = {
  stop_condition: { ...textOrNull, description: 'Why the episode ended; null until then' },
  metrics: { ...byName(number), description: 'The rewards and metrics of the episode by name; empty until its end' },
} as const;
const stop = { ...listOf(text), description: 'Strings at which the next action ends' } as const;

export const ObservationSchema = {
  title: 'TextObservation',
  ...closed({ text: { ...text, description: 'What the environment added after the action' }, stop, ...ended }),
} as const;

export const ResetObservationSchema = {
  title: 'PromptObservation',
  ...closed(
    { prompt: { ...listOf(wireMessageSchema), description: 'The messages that the model is asked with' }, text, stop, ...ended },
    { tools: { ...listOf(json), description: 'The tools that the model may call' } },
  ),
} as const;

export const StateSchema = {
  title: 'EpisodeState',
  ...closed({ episode_id: { ...textOrNull, description: 'Null without an episode' }, step_count: count }, { example_id: textOrNumber, done: flag }),
} as const;
export type EpisodeStateColumns = XStatic<typeof StateSchema>;

export const ResetAnswerSchema = closed({ observation: ResetObservationSchema, reward: numberOrNull, done: flag, metadata: closed(place) });
export const StepAnswerSchema = closed({ observation: ObservationSchema, reward: numberOrNull, done: flag, metadata: stepMetadata });
export type ResetAnswer = XStatic<typeof ResetAnswerSchema>;
export type StepAnswer = XStatic<typeof StepAnswerSchema>;

/** Writes rewards and metrics as floats even if they are whole numbers. */
export const resetAnswerLine = encodeWithFloats(ResetAnswerSchema);
export const stepAnswerLine = encodeWithFloats(StepAnswerSchema);

const episodeId = { anyOf: [{ ...filledText, maxLength: 255 }, { type: 'null' }] } as const;

/** The body of the HTTP route, and the `data` of a frame. */
export const ResetDataSchema = closed(
  {},
  {
    /** Of the row to play. */
    example_id: nullable(textOrNumber),
    /** The caller's name for the episode. */
    episode_id: episodeId,
    /** Picks the row at this place, modulo the number of rows. */
    seed: nullable(count),
  },
);
export type ResetData = XStatic<typeof ResetDataSchema>;

export const StepBodySchema = closed(
  { action: json, episode_id: { ...filledText, maxLength: 255 } },
  /** `timeout_s` and `request_id` are accepted and ignored, as by most environments. */
  { timeout_s: numberOrNull, request_id: textOrNull },
);

export const SchemasAnswerSchema = closed({ action: json, observation: json, reset_observation: json, state: json });
export const MetadataSchema = closed({ name: text, description: text, version: text });

const split = { split: text } as const;
export const SplitBodySchema = closed(split);
export const TaskBodySchema = closed({ ...split, index: integer });
export const TaskRangeBodySchema = closed(split, { start: nullable(integer), stop: nullable(integer) });

const task = object({ example_id: textOrNumber, prompt: listOf(wireMessageSchema), answer: textOrNull, info: json }, optionalColumns);
export const EnvironmentsSchema = listOf(text);
export const SplitsSchema = listOf(closed({ name: text, type: text }));
export const TaskListSchema = closed({ tasks: listOf(task), env_name: text });
export const TaskCountSchema = closed({ num_tasks: count });
export const OneTaskSchema = closed({ task });
export const TaskRangeSchema = closed({ tasks: listOf(task) });

/** The protocol's codes of an error frame. */
export type WireErrorCode =
  | 'INVALID_JSON'
  | 'UNKNOWN_TYPE'
  | 'VALIDATION_ERROR'
  | 'EXECUTION_ERROR'
  | 'CAPACITY_REACHED'
  | 'FACTORY_ERROR'
  | 'SESSION_ERROR';

/** The data of a `CAPACITY_REACHED` error. */
export interface CapacityColumns {
  readonly active_sessions: number;
  readonly max_sessions: number;
}
