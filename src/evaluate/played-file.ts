/**
 * `played.jsonl` of a run: one line for each rollout that was played to its end, whether or not it got a score. The line is written before the rollout's
 * result, so a recorded result always has it; a line without a result is ignored.
 */
import type { Row } from '../core/dataset.ts';
import { keepLines, type Line } from '../files/json-lines.ts';
import type { Rollout } from '../rollouts/rollout.ts';
import { PlayedLineSchema, type WirePlayedLine } from '../schemas/played-line.ts';
import type { Redaction } from './redaction.ts';
import { plainData } from './result-record.ts';
import { runFiles } from './run-files.ts';
import { readRecords } from './run-records.ts';

/** Null for a rollout that failed before its rewards: it cannot be scored. */
export function playedLine<R extends Row>({ rolloutId, beforeScoring, state }: Rollout<R>, redaction: Redaction): WirePlayedLine | null {
  if (beforeScoring === undefined) return null;
  const { stop, asked, askedFinished } = beforeScoring;
  const { rollout_id, ...rest } = {
    schema_version: 1 as const,
    rollout_id: rolloutId,
    stop_condition: stop,
    asked,
    asked_finished: askedFinished,
    state: plainData(state) as Record<string, unknown>,
  };
  // Ids are never redacted.
  return { ...redaction.values(rest), rollout_id };
}

/** Drops the lines of rollouts that a resume plays again, and torn lines of a process that died. */
export async function recoverPlayed(directory: string, keptIds: ReadonlySet<string>): Promise<void> {
  const path = runFiles(directory).played;
  const kept = new Map<string, Line>();
  const { lines, endsWhole } = await readRecords(path, PlayedLineSchema, ({ rollout_id: id }, line) => {
    if (keptIds.has(id)) kept.set(id, { ...line, text: '' });
  });
  if (!endsWhole || kept.size < lines) await keepLines(path, [...kept.values()]);
}
