/** `ablation.json`: the runs of an `[[ablation]]` of vf-train and what became of each. docs/training-run.md describes it. */
import type { XStatic } from 'typebox/schema';
import { byName, choice, filledText, listOf, numberOrNull, object, only, text, textOrNull } from './json-schema.ts';

const run = object(
  {
    name: text,
    /** Its own settings as text: `lr 0.001, seed 0`. */
    label: text,
    /** The same by dotted key, without secrets. */
    settings: byName({}),
    /** The name of its folder, which lies two above that of the ablation; null before it has begun. */
    folder: { ...textOrNull, pattern: '^[A-Za-z0-9_-]+$' },
    /** `running` also if the process was killed. */
    state: choice('planned', 'running', 'finished', 'stopped', 'failed', 'interrupted'),
    /** Why it stopped or failed. */
    reason: textOrNull,
  },
  {
    /** US dollars that its models by role have cost in all processes; null if that is unknown. Absent before it ends, and if none can cost anything. */
    usd: numberOrNull,
  },
);

export const AblationSchema = object({
  schema_version: only(1),
  name: filledText,
  started_at: text,
  /** When the last run ended; null while runs are left. */
  finished_at: textOrNull,
  runs: listOf(run),
});
export type WireAblation = XStatic<typeof AblationSchema>;
export type WireAblationRun = WireAblation['runs'][number];
