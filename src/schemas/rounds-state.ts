/** `state.json` of `vf-rounds run`: the finished steps, their commands and their results. */
import type { XStatic } from 'typebox/schema';
import { count, countOrNull, filledText, listOf, number, object, only, text, textOrNull } from './json-schema.ts';

const doneStep = object({
  /** `1/phase1` */
  key: filledText,
  command: listOf(text),
  started_at: text,
  seconds: number,
  /** Folder of a training. */
  run: textOrNull,
  adapter: textOrNull,
  /** Mean reward of the first batch, and on held-out rows at the end, if they were measured. */
  reward: object({}),
});

const runningSince = object({
  /** The time at which the first process of this step started. */
  started_at: text,
  /** The time at which the process with `pid` started. */
  process_started_at: text,
  /** Seconds that earlier processes worked on the step. */
  seconds: number,
});

export const RoundsStateSchema = object({
  schema_version: only(1),
  config_sha256: text,
  package_version: text,
  rounds: count,
  /**
   * The command under way, for a process that continues after a kill. `start` is that of its process, in clock ticks since boot; null if the system does not report
   * it.
   */
  running: object({ key: textOrNull, pid: countOrNull }, { start: textOrNull, since: runningSince }),
  steps: listOf(doneStep),
});
export type WireRoundsState = XStatic<typeof RoundsStateSchema>;
export type WireRunningSince = XStatic<typeof runningSince>;
export type WireDoneStep = XStatic<typeof doneStep>;
