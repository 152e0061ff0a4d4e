import { ResultsError, TrainingError } from '../../core/errors.ts';
import type { RunRecords } from '../records/run-records.ts';
import type { Guards } from './guards.ts';
import type { Progress } from './progress.ts';
import type { TokenBudget } from '../gradients/token-budget.ts';
import { totalSteps } from '../config/training-schedule.ts';
import type { TrainingRun, TrainingSession } from '../training-session.ts';

export interface CheckpointParts {
  readonly run: TrainingRun;
  readonly records: RunRecords;
  readonly session: TrainingSession;
  readonly progress: Progress;
  readonly budget: TokenBudget;
  readonly guards: Guards;
}

/** Writes the checkpoints of a session. */
export class CheckpointWriter {
  readonly #parts: CheckpointParts;
  /** Step of the newest checkpoint that was written or tried. */
  #saved: number;
  #seconds = 0;
  /** The number of thinned files that was reported last. */
  #saidThin = 0;

  constructor(parts: CheckpointParts, saved: number) {
    this.#parts = parts;
    this.#saved = saved;
  }

  isDue(step: number): boolean {
    const { config } = this.#parts.run;
    return step % config.checkpoint.every === 0 || step === totalSteps(config);
  }

  /** The loop's own counts, as they are now. */
  get counters(): Readonly<Record<string, number>> {
    const { run, budget, guards } = this.#parts;
    return { ...budget.counters, max_tokens: run.config.backend.maxTokens, skipped_steps: guards.skipped };
  }

  /** True if a checkpoint written now would hold steps that the newest one lacks. */
  get isBehind(): boolean {
    return (this.#parts.progress.boundary?.step ?? 0) > this.#saved;
  }

  /**
   * Writes a checkpoint of the last boundary. If it cannot be written, or an old one not deleted, this raises an alarm and the run continues: the last checkpoint
   * is still valid. Throws TrainingError if the one of the last step cannot be written: a run without its adapter has not finished.
   */
  async save(): Promise<void> {
    const { run, records, session, progress } = this.#parts;
    const { config, observer } = run;
    const { checkpoints } = records;
    const { step, version, counters } = progress.boundary ?? { step: progress.step, version: progress.version, counters: this.counters };
    observer.onPhase?.('checkpoint', step);
    const startedAtMs = performance.now();
    this.#saved = step;
    let isWritten = false;
    try {
      await checkpoints.save({ step, version, model: session.versions.current().model, counters }, (directory) =>
        progress.fill(directory, session.backend),
      );
      isWritten = true;
      const oldest = await checkpoints.prune(config.checkpoint.keep);
      if (oldest !== null) await this.#retireRollouts(oldest + 1);
    } catch (error) {
      if (!(error instanceof ResultsError)) throw error;
      if (!isWritten && step === totalSteps(config)) throw unfinished(error);
      records.report({ kind: 'alarm', message: error.message });
    }
    this.#seconds += (performance.now() - startedAtMs) / 1000;
  }

  /** Drops the rollouts of steps that no kept checkpoint needs. */
  async #retireRollouts(before: number): Promise<void> {
    const { run, records } = this.#parts;
    const { keepRollouts, maxRolloutsGb } = run.config.checkpoint;
    if (!keepRollouts) return records.rollouts.discardBefore(before);
    const { thinned, removed } = await records.rollouts.archiveBefore(before, maxRolloutsGb * 1e9);
    const what = [...(thinned > 0 ? ['lost their token ids and log-probs'] : []), ...(removed > 0 ? ['were left out'] : [])];
    if (what.length === 0 || this.#saidThin >= what.length) return;
    this.#saidThin = what.length;
    const message = `The kept rollouts reached ${maxRolloutsGb} GB (checkpoint.max_rollouts_gb): those of old steps ${what.join(' or ')}`;
    records.report({ kind: 'note', message });
  }

  /** Seconds spent since the last call. */
  takeSeconds(): number {
    const seconds = this.#seconds;
    this.#seconds = 0;
    return seconds;
  }
}

function unfinished(cause: ResultsError): TrainingError {
  const text = cause.message.replace(/\. Earlier checkpoints are kept$/, '');
  return new TrainingError(
    `The last checkpoint is missing: ${text}. Correct this, then continue this run with -R, which repeats the steps since the previous checkpoint from their recorded rollouts`,
    { cause, resumeFlags: [] },
  );
}
