/** One line of `trace.jsonl`: an event of a rollout, or the start of a run. docs/rounds.md describes every event. */
import type { XStatic } from 'typebox/schema';
import { count, countOrNull, flag, number, object, textOrNull, text } from './json-schema.ts';

export const TraceLineSchema = object(
  {
    /** Seconds since the epoch. */
    ts: number,
    event: text,
    run_id: text,
    /** Step of training; null in an evaluation. */
    step: countOrNull,
    group_id: textOrNull,
    rollout_id: textOrNull,
    /** Turn of the policy, from 0 up; null for an event that belongs to no turn. */
    turn: countOrNull,
  },
  {
    /** The phase, if a step has several. */
    phase: text,
    /** True for an evaluation within a training run. */
    evaluation: flag,
    /** The time at which the rollout was begun, in milliseconds since the epoch: if it was played again, the later one counts. */
    play: count,
    /** Place of the line among those of its rollout, from 0 up. */
    seq: count,
    /** Lines of the rollout, on its last one. */
    lines: count,
  },
);
export type WireTraceLine = XStatic<typeof TraceLineSchema>;
