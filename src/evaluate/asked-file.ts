/**
 * `asked.jsonl` of a run: the calls of models by role, one line for each rollout with calls. The line is written before the rollout's result, so a
 * recorded result always has it; a line without a result is ignored.
 */
import type { AskedRecord } from '../core/model.ts';
import { LineAppender } from '../files/json-lines.ts';
import { askedLine, AskedTally } from '../models/asked-records.ts';
import { askedLineText } from '../schemas/asked-line.ts';
import type { Redaction } from './redaction.ts';
import { runFiles } from './run-files.ts';

/** The part of a rollout that this file records. */
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

  /** `tally` holds the calls of the rollouts that a resume kept. */
  static async open(
    directory: string,
    { redaction, tally = new AskedTally() }: { readonly redaction: Redaction; readonly tally?: AskedTally },
  ): Promise<AskedFile> {
    return new AskedFile(await LineAppender.open(runFiles(directory).asked), tally, redaction);
  }

  /** The lines are on file when this returns. Throws ResultsError. */
  record(rollouts: readonly AskingRollout[]): void {
    const lines = rollouts.flatMap(({ rolloutId, asked }) => askedLine(rolloutId, asked) ?? []);
    for (const { asked } of rollouts) this.tally.add(asked);
    // A resume identifies rollouts by their ids, so ids are never redacted.
    if (lines.length > 0) this.#appender.append(lines.map((line) => askedLineText({ ...this.#redaction.values(line), rollout_id: line.rollout_id })));
  }

  close(): Promise<void> {
    return this.#appender.close();
  }
}
