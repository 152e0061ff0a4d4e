/** One line of `trace.jsonl`: something that happened in a rollout, or the start of a run. docs/rounds.md describes every event. */
import type { XStatic } from 'typebox/schema';
import { count, countOrNull, flag, number, object, textOrNull, text } from './json-schema.ts';

export const TraceLineSchema = object(
  {
    /** Seconds since the epoch. */
    ts: number,
    event: text,
    run_id: text,
    /** Of training; null in an evaluation. */
    step: countOrNull,
    group_id: textOrNull,
    rollout_id: textOrNull,
    /** Of the policy, from 0 up; null for what belongs to no turn. */
    turn: countOrNull,
  },
  {
    /** Of a step with several phases. */
    phase: text,
    /** An evaluation within a training run. */
    evaluation: flag,
    /** When the rollout was begun, in milliseconds since the epoch: if it was played again, the later one counts. */
    play: count,
    /** Place of the line among those of its rollout, from 0 up. */
    seq: count,
    /** Lines of the rollout, on its last one. */
    lines: count,
  },
);
export type WireTraceLine = XStatic<typeof TraceLineSchema>;
