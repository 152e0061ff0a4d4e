import type { AskedRecord } from '../core/model.ts';
import { keepLines, type Line } from '../files/json-lines.ts';
import { askedFromLine, AskedTally } from '../models/asked-records.ts';
import { AskedLineSchema } from '../schemas/asked-line.ts';
import { runFiles } from './run-files.ts';
import { readRecords } from './run-records.ts';

/** Drops the lines of rollouts that a resume plays again, and torn lines of a process that died. The last line of each rollout counts. */
export async function recoverAsked(directory: string, keptIds: ReadonlySet<string>): Promise<AskedTally> {
  const path = runFiles(directory).asked;
  const found = new Map<string, { readonly line: Line; readonly asked: readonly AskedRecord[] }>();
  const { records, endsWhole } = await readRecords(path, AskedLineSchema, (record, line) => {
    if (keptIds.has(record.rollout_id)) found.set(record.rollout_id, { line: { ...line, text: '' }, asked: askedFromLine(record) });
  });
  const kept = [...found.values()];
  if (!endsWhole || kept.length < records)
    await keepLines(
      path,
      kept.map(({ line }) => line),
    );
  const tally = new AskedTally();
  for (const { asked } of kept) tally.add(asked);
  return tally;
}
