/** Keeps the adapter of the best version so far in `best/`. If the folder exists, it is complete. */
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { GradientError, ResultsError } from '../../core/errors.ts';
import { replaceFile } from '../../files/json-lines.ts';
import { supervisedSteps } from '../config/training-schedule.ts';
import { type BestMetric, bestRecord, type BestVersion, isBetter, readBest } from '../records/best-version.ts';
import type { RunRecords } from '../records/run-records.ts';
import type { TrainingRun, TrainingSession } from '../training-session.ts';

export interface BestAdapterParts {
  readonly run: Pick<TrainingRun, 'config' | 'directory'>;
  readonly records: Pick<RunRecords, 'report'>;
  readonly session: Pick<TrainingSession, 'backend'>;
  /** The run validates on demonstrations. */
  readonly isValidated: boolean;
}

export class BestAdapter {
  readonly #parts: BestAdapterParts;

  constructor(parts: BestAdapterParts) {
    this.#parts = parts;
  }

  /**
   * Keeps the backend's adapter if it is better than the one that is kept. Call it before the measurement is recorded: after a kill in between, the measurement is repeated,
   * and so is this. If `best/` cannot be written, this raises an alarm and the run continues.
   */
  async offer(found: Omit<BestVersion, 'value'> & { readonly value: number | null }): Promise<void> {
    const { value } = found;
    try {
      await this.#putBack();
      if (value === null || !Number.isFinite(value) || !this.#isAsked(found)) return;
      const best = { ...found, value };
      if (isBetter(best, readBest(this.#paths.best))) await this.#keep(best);
    } catch (error) {
      if (error instanceof GradientError || (!(error instanceof ResultsError) && (error as NodeJS.ErrnoException).code === undefined)) throw error;
      this.#parts.records.report({ kind: 'alarm', message: `Cannot write the best adapter ${this.#paths.best}: ${(error as Error).message}` });
    }
  }

  /** Tells whether `checkpoint.best` lets this measurement choose. */
  #isAsked({ metric, step, version }: { readonly metric: BestMetric; readonly step: number; readonly version: number }): boolean {
    const { config } = this.#parts.run;
    const { best } = config.checkpoint;
    if (metric === 'validation_nll') return best === 'auto' || best === 'validation_loss';
    // Version 0 is what the run started from.
    if (version === 0 || best === 'none' || best === 'validation_loss') return false;
    // Of supervised steps the loss on demonstrations says more than a few rollouts do.
    return best === 'reward' || (config.steps > 0 ? step >= supervisedSteps(config) : !this.#parts.isValidated);
  }

  get #paths() {
    const { best } = this.#parts.run.directory.paths;
    return { best, fresh: `${best}.new.tmp`, old: `${best}.old.tmp` };
  }

  /** Restores the old `best/` after a crash between the two renames of `#keep`. That measurement is repeated, because it has no row in the metrics. */
  async #putBack(): Promise<void> {
    const { best, old } = this.#paths;
    if (!existsSync(best) && existsSync(old)) await rename(old, best);
  }

  async #keep(found: BestVersion): Promise<void> {
    const { best, fresh, old } = this.#paths;
    for (const path of [fresh, old]) await rm(path, { recursive: true, force: true });
    await mkdir(fresh);
    await this.#parts.session.backend.saveAdapter(`${fresh}/adapter`);
    const { name, text } = bestRecord(found);
    await replaceFile(`${fresh}/${name}`, (write) => write(Buffer.from(text)));
    await rename(best, old).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
    await rename(fresh, best);
    await rm(old, { recursive: true, force: true });
  }
}
