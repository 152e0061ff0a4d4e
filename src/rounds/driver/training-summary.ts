/** The part of the summary from `vf-train --json` that a step of the rounds uses. */
import type { XStatic } from 'typebox/schema';
import { count, nullable, object, textOrNull } from '../../schemas/json-schema.ts';
import { parseWire } from '../../schemas/results.ts';

const summarySchema = object({
  step: count,
  reward: nullable(object({})),
  held_out: nullable(object({})),
  rollouts: object({ finished: count }),
  adapter: textOrNull,
});
export type StepSummary = XStatic<typeof summarySchema>;

/** The last line that is a summary, because code of an environment may print lines, too; null if none is. */
export function summaryIn(stdout: string): StepSummary | null {
  for (const line of stdout.split('\n').toReversed()) {
    const parsed = parseWire(summarySchema, line);
    if ('value' in parsed) return parsed.value;
  }
  return null;
}
