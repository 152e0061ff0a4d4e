/** One line of `played.jsonl`: what the rewards read of an episode but its result does not record, so that the episode can be scored again. docs/score.md describes every field. */
import type { XStatic } from 'typebox/schema';
import { count, countOrNull, json, object, only, text } from './json-schema.ts';

export const PlayedLineSchema = object({
  schema_version: only(1),
  rollout_id: text,
  /** Why the episode ended; a result whose rewards failed says `has_error`. */
  stop_condition: text,
  /** Calls of models by role until the episode had ended: the first ones of the rollout's line in `asked.jsonl`. */
  asked: count,
  /** The same until the environment's hook `finish` had run, whose fields the state holds; null if it failed. */
  asked_finished: countOrNull,
  /** The episode's final state, without what JSON cannot hold. */
  state: json,
});
export type WirePlayedLine = XStatic<typeof PlayedLineSchema>;
