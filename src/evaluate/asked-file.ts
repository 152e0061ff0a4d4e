/**
 * `asked.jsonl` of a run: what its rollouts asked of models beside the policy, a line for each rollout that asked. A line is written before the
 * rollout's result, so that a result on file is never without it; a line without a result counts for nothing.
 */
import type { AskedRecord } from '../core/model.ts';
import { LineAppender } from '../files/json-lines.ts';
import { askedLine, AskedTally } from '../models/asked-records.ts';
import type { Redaction } from './redaction.ts';
import { runFiles } from './run-files.ts';

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
    return new AskedFile(await LineAppender.open(runFiles(directory).asked), tally, redaction);
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
