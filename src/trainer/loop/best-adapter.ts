/** Keeps the adapter of the best version so far in `best/`. If the folder exists, it is complete. */
import { existsSync } from 'node:fs';
import { cp, mkdir, rename, rm } from 'node:fs/promises';
import { TrainingError } from '../../core/errors.ts';
import { endsBackend } from '../gradient-backend.ts';
import { isDiskFull } from '../../files/disk-full.ts';
import { replaceFile } from '../../files/json-lines.ts';
import { supervisedSteps } from '../config/training-schedule.ts';
import { bestRecord, type BestVersion, isBetter, measuredVersions, readBest } from '../records/best-version.ts';
import { BEST_KEYWORDS } from '../config/algorithm-rules.ts';
import { type ChosenMetric, chosenMetric } from '../records/chosen-metric.ts';
import { comparableEvaluations } from '../records/usable-version.ts';
import type { RunRecords } from '../records/run-records.ts';
import type { MetricsRow } from '../training-observer.ts';
import type { TrainingRun, TrainingSession } from '../training-session.ts';
import { systemText } from '../../files/system-text.ts';
import { adapterFault, writtenAdapter } from '../../files/written-files.ts';

export interface BestAdapterParts {
  readonly run: Pick<TrainingRun, 'config' | 'directory' | 'evaluationSetup'>;
  readonly records: Pick<RunRecords, 'report' | 'rows' | 'missingRows' | 'checkpoints'>;
  readonly session: Pick<TrainingSession, 'backend'>;
  /** The run validates on demonstrations. */
  readonly isValidated: boolean;
}

export class BestAdapter {
  readonly #parts: BestAdapterParts;
  /** Why a better version than the one in `best/` could not be kept there; null if none is missing. */
  #problem: string | null = null;

  constructor(parts: BestAdapterParts) {
    this.#parts = parts;
  }

  /**
   * Keeps the backend's adapter if it is better than the one that is kept. Call it before the measurement is recorded: after a kill in between, the measurement is repeated,
   * and so is this.
   */
  async offer(found: Omit<BestVersion, 'value'> & { readonly value: number | null }): Promise<void> {
    const { value } = found;
    await this.#writing(async () => {
      if (value === null || !Number.isFinite(value) || !this.#isAsked(found)) return;
      const best = { ...found, value };
      const save = async (directory: string) => void (await this.#parts.session.backend.saveAdapter(directory));
      if (this.#beatsStart(best) && isBetter(best, this.#rivalIn(readBest(this.#paths.best)))) await this.#keep(best, save);
    });
  }

  /**
   * Chooses again, among the checkpoints, if the measurement that chose `best/` is not recorded, or if a better version could not be written there. A session calls it when it
   * starts: it repeats the measurements after its checkpoint, or it has discarded them because settings have changed.
   */
  async review(): Promise<void> {
    this.#problem = null;
    await this.#writing(() => this.#chooseAgain());
  }

  /** Tries once more to write what could not be written, at the end of the run. Throws TrainingError if that fails too: a run without its best adapter has not finished. */
  async settle(): Promise<void> {
    if (this.#problem !== null) await this.review();
    if (this.#problem === null) return;
    throw new TrainingError(`${this.#problem}. Correct this, then continue this run with -R, which takes it from its checkpoint`);
  }

  async #chooseAgain(): Promise<void> {
    const { run, records } = this.#parts;
    const { best } = this.#paths;
    if (run.config.checkpoint.best === 'none') return;
    const kept = readBest(best);
    const fault = kept === null ? null : await adapterFault(kept.adapter);
    if (fault !== null) return this.#mend(kept!, fault);
    const rival = this.#rivalIn(kept);
    const measured = measuredVersions(this.#comparable, this.#chosen).filter((each) => this.#isAsked(each) && this.#beatsStart(each));
    const isRecorded = rival === null || measured.some((each) => isSame(each, rival));
    const found = await this.#inCheckpoint(isRecorded ? measured.filter((each) => isBetter(each, rival)) : measured);
    // An adapter is not deleted because its measurement was lost with metrics.jsonl.
    if (found === null && (kept === null || isRecorded || records.missingRows(kept.step).length > 0)) return;
    if (found === null) await rm(best, { recursive: true });
    else await this.#keep(found.version, (directory) => cp(found.adapter, directory, { recursive: true }));
    const now = found === null ? 'the next measurement chooses it again' : `it now holds the adapter of step ${found.version.step}`;
    const before =
      kept === null || isRecorded
        ? 'best/ lacked the best adapter'
        : `best/ held the adapter of step ${kept.step}, whose measurement is not recorded`;
    records.report({ kind: 'note', message: `${before}: ${now}` });
  }

  /** Takes a damaged adapter from the checkpoint of its version. No other version replaces it: a user may still have a copy. */
  async #mend(kept: BestVersion, fault: string): Promise<void> {
    const { report } = this.#parts.records;
    const found = await this.#inCheckpoint([kept]);
    if (found !== null) await this.#keep(kept, (directory) => cp(found.adapter, directory, { recursive: true }));
    const what = `best/ held a damaged adapter: ${fault}`;
    if (found !== null) report({ kind: 'note', message: `${what}. It was taken from the checkpoint of step ${kept.step}` });
    else
      report({
        kind: 'alarm',
        message: `${what}, and no checkpoint has step ${kept.step} any more. Restore ${this.#paths.best} from a copy, or delete it: then the next measurement chooses it again`,
      });
  }

  /** The first of these whose adapter a checkpoint has. */
  async #inCheckpoint(measured: readonly BestVersion[]): Promise<{ readonly version: BestVersion; readonly adapter: string } | null> {
    if (measured.length === 0) return null;
    const adapters = new Map<number, string>();
    for await (const { version, adapterDirectory } of this.#parts.records.checkpoints.whole()) adapters.set(version, adapterDirectory);
    const version = measured.find((each) => adapters.has(each.version));
    return version === undefined ? null : { version, adapter: adapters.get(version.version)! };
  }

  /** If `best/` cannot be written, this raises an alarm and the run continues until `settle`. */
  async #writing(work: () => Promise<void>): Promise<void> {
    try {
      await this.#putBack();
      await work();
    } catch (error) {
      if (endsBackend(error)) throw error;
      const { best, fresh } = this.#paths;
      await rm(fresh, { recursive: true, force: true }).catch(() => {});
      this.#problem = `Cannot write the best adapter ${best}: ${isDiskFull(error) ? 'the disk is full; free some space' : systemText(error)}`;
      this.#parts.records.report({ kind: 'alarm', message: `${this.#problem}. It is tried again at the end of the run` });
    }
  }

  /** Tells whether `checkpoint.best` lets this measurement choose. */
  #isAsked({ metric, step, version }: { readonly metric: string; readonly step: number; readonly version: number }): boolean {
    const { config } = this.#parts.run;
    const { best } = config.checkpoint;
    if (metric === 'validation_nll') return best === 'auto' || best === 'validation_loss';
    // Version 0 is what the run started from.
    if (version === 0 || best === 'none' || best === 'validation_loss' || metric !== this.#chosen.metric) return false;
    if (!BEST_KEYWORDS.includes(best)) return true;
    // Of supervised steps the loss on demonstrations says more than a few rollouts do.
    return best === 'reward' || (config.steps > 0 ? step >= supervisedSteps(config) : !this.#parts.isValidated);
  }

  /** A version that plays no better than the one that the run started from is not kept as the best. */
  #beatsStart(found: BestVersion): boolean {
    if (found.metric !== this.#chosen.metric) return true;
    const start = measuredVersions(this.#comparable, this.#chosen).find(({ metric, version }) => metric === found.metric && version === 0);
    // A start that was lost with metrics.jsonl is beaten by nothing; a run that does not measure its start loses none.
    return start === undefined ? this.#parts.records.missingRows(found.step).length === 0 : isBetter(found, start);
  }

  /** The rows without the evaluations of another setup: the environment's module may be corrected between two processes. */
  get #comparable(): readonly MetricsRow[] {
    const { run, records } = this.#parts;
    return comparableEvaluations(records.rows, run.evaluationSetup ?? null);
  }

  /** The kept version that another one must beat. One that was measured with another setup stays only until the first measurement with this one. */
  #rivalIn(kept: BestVersion | null): BestVersion | null {
    if (kept === null || kept.metric === 'validation_nll') return kept;
    // Another metric chose it, before checkpoint.best was changed.
    if (kept.metric !== this.#chosen.metric || (kept.lowerIsBetter === true) !== this.#chosen.isLowerBetter) return null;
    const isKept = (each: BestVersion) => isSame(each, kept);
    return !measuredVersions(this.#comparable, this.#chosen).some(isKept) && measuredVersions(this.#parts.records.rows, this.#chosen).some(isKept)
      ? null
      : kept;
  }

  get #chosen(): ChosenMetric {
    return chosenMetric(this.#parts.run.config.checkpoint);
  }

  get #paths() {
    const { best } = this.#parts.run.directory.paths;
    return { best, fresh: `${best}.new.tmp`, old: `${best}.old.tmp` };
  }

  /** Restores the old `best/` after a crash between the two renames of `#keep`. */
  async #putBack(): Promise<void> {
    const { best, old } = this.#paths;
    if (!existsSync(best) && existsSync(old)) await rename(old, best);
  }

  async #keep(found: BestVersion, save: (directory: string) => Promise<void>): Promise<void> {
    const { best, fresh, old } = this.#paths;
    for (const path of [fresh, old]) await rm(path, { recursive: true, force: true });
    await mkdir(fresh);
    await save(`${fresh}/adapter`);
    const { name, text } = bestRecord(found, await writtenAdapter(`${fresh}/adapter`));
    await replaceFile(`${fresh}/${name}`, (write) => write(Buffer.from(text)));
    await rename(best, old).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
    await rename(fresh, best);
    this.#problem = null;
    await rm(old, { recursive: true, force: true });
  }
}

function isSame(measured: BestVersion, kept: BestVersion): boolean {
  const { metric, step, version, value } = measured;
  return metric === kept.metric && step === kept.step && value === kept.value && (metric === 'validation_nll' || version === kept.version);
}
