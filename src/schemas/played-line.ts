/**
 * One line of `played.jsonl`: the parts of an episode that rewards read and that its result does not record, so that the episode can be scored again. docs/score.md
 * describes every field.
 */
import type { XStatic } from 'typebox/schema';
import { count, countOrNull, json, object, only, text } from './json-schema.ts';

export const PlayedLineSchema = object({
  schema_version: only(1),
  rollout_id: text,
  /** The reason why the episode ended; a result whose rewards failed says `has_error`. */
  stop_condition: text,
  /** Calls of models by role until the episode had ended: the first ones of the rollout's line in `asked.jsonl`. */
  asked: count,
  /** Number of these calls until the environment's hook `finish` had run, whose fields the state holds; null if the hook failed. */
  asked_finished: countOrNull,
  /** The episode's final state, without values that JSON cannot hold. */
  state: json,
});
export type WirePlayedLine = XStatic<typeof PlayedLineSchema>;
