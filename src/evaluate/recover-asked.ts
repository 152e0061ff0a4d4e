import type { AskedRecord } from '../core/model.ts';
import { keepLines, type Line } from '../files/json-lines.ts';
import { askedFromLine, AskedTally } from '../models/asked-records.ts';
import { AskedLineSchema } from '../schemas/asked-line.ts';
import { runFiles } from './run-files.ts';
import { readRecords } from './run-records.ts';
import { Spending } from './spending.ts';

export interface RecoveredAsked {
  readonly tally: AskedTally;
  /** The calls of the kept rollouts, and those of the dropped ones. */
  readonly kept: Spending;
  readonly dropped: Spending;
}

/** Drops the lines of rollouts that a resume plays again, and torn lines of a process that died. */
export async function recoverAsked(directory: string, keptIds: ReadonlySet<string>): Promise<RecoveredAsked> {
  const path = runFiles(directory).asked;
  const dropped = new Spending();
  const found = new Map<string, { readonly line: Line; readonly asked: readonly AskedRecord[] }>();
  const { lines, endsWhole } = await readRecords(path, AskedLineSchema, (record, line) => {
    const asked = askedFromLine(record);
    if (keptIds.has(record.rollout_id)) found.set(record.rollout_id, { line: { ...line, text: '' }, asked });
    else dropped.addAsked(asked);
  });
  const kept = [...found.values()];
  if (!endsWhole || kept.length < lines)
    await keepLines(
      path,
      kept.map(({ line }) => line),
    );
  const tally = new AskedTally();
  const spent = new Spending();
  for (const { asked } of kept) {
    tally.add(asked);
    spent.addAsked(asked);
  }
  return { tally, kept: spent, dropped };
}
