/**
 * `asked.jsonl` of a run: what its rollouts asked of models beside the policy, a line for each rollout that asked. A line is written before the
 * rollout's result, so that a result on file is never without it; a line without a result counts for nothing.
 */
import { join } from 'node:path';
import type { AskedRecord } from '../core/model.ts';
import { keepLines, type Line, LineAppender } from '../files/json-lines.ts';
import { askedFromLine, askedLine, AskedTally } from '../models/asked-records.ts';
import { AskedLineSchema } from '../schemas/asked-line.ts';
import type { Redaction } from './redaction.ts';
import { readRecords } from './run-records.ts';

export function askedPath(directory: string): string {
  return join(directory, 'asked.jsonl');
}

/** A rollout, as far as its record goes. */
export interface AskingRollout {
  readonly rolloutId: string;
  readonly asked: readonly AskedRecord[];
}

export class AskedFile {
  readonly tally: AskedTally;
  readonly #appender: LineAppender;
  readonly #redaction: Redaction;

  private constructor(appender: LineAppender, tally: AskedTally, redaction: Redaction) {
    this.#appender = appender;
    this.tally = tally;
    this.#redaction = redaction;
  }

  /** `tally` holds what the rollouts asked that a resume kept. */
  static async open(
    directory: string,
    { redaction, tally = new AskedTally() }: { readonly redaction: Redaction; readonly tally?: AskedTally },
  ): Promise<AskedFile> {
    return new AskedFile(await LineAppender.open(askedPath(directory)), tally, redaction);
  }

  /** On file when this returns. Throws ResultsError. */
  record(rollouts: readonly AskingRollout[]): void {
    const lines = rollouts.flatMap(({ rolloutId, asked }) => askedLine(rolloutId, asked) ?? []);
    for (const { asked } of rollouts) this.tally.add(asked);
    // Ids are what a resume goes by, so they stay whatever they spell.
    if (lines.length > 0)
      this.#appender.append(lines.map((line) => JSON.stringify({ ...this.#redaction.values(line), rollout_id: line.rollout_id })));
  }

  close(): Promise<void> {
    return this.#appender.close();
  }
}

/** Drops the lines of rollouts that a resume plays again, and what a dying process left half done; of several of one rollout the last counts. */
export async function recoverAsked(directory: string, keptIds: ReadonlySet<string>): Promise<AskedTally> {
  const path = askedPath(directory);
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
