/** The loss on held-out demonstrations between supervised steps, and the adapter with the lowest one. */
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { GradientError, ResultsError } from '../../core/errors.ts';
import { replaceFile } from '../../files/json-lines.ts';
import type { RunRecords } from '../records/run-records.ts';
import type { Trajectory } from '../trajectory.ts';
import { logProbPass } from '../gradients/log-prob-pass.ts';
import type { Progress } from './progress.ts';
import type { TokenBudget } from '../gradients/token-budget.ts';
import { supervisedSteps } from '../config/training-schedule.ts';
import type { TrainingRun, TrainingSession } from '../training-session.ts';

export interface ValidationParts {
  readonly run: TrainingRun;
  readonly records: RunRecords;
  readonly session: TrainingSession;
  readonly budget: TokenBudget;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}

export class Validation {
  readonly #parts: ValidationParts;
  readonly #rows: readonly Trajectory[];

  /** @param rows held-out demonstrations; none turns validation off */
  constructor(parts: ValidationParts, rows: readonly Trajectory[]) {
    this.#parts = parts;
    this.#rows = rows;
  }

  isDue(step: number): boolean {
    const { run, records } = this.#parts;
    const last = supervisedSteps(run.config);
    if (this.#rows.length === 0 || step > last || records.rows.some((row) => row.kind === 'validation' && row.step === step)) return false;
    return step % run.config.sft.validateEvery === 0 || step === last;
  }

  async run(step: number): Promise<void> {
    const { run, records, session, budget, progress, signal } = this.#parts;
    run.observer.onPhase?.('validation', step);
    await this.#alarmed(() => this.#putBack());
    const startedAtMs = performance.now();
    const logProbs = await logProbPass(this.#rows, 'on', { backend: session.backend, budget, temperature: 1, signal });
    const { sum, weight, tokens } = weighted(this.#rows, logProbs);
    const nll = sum / weight;
    const earlier = records.rows.flatMap(({ kind, values }) => (kind === 'validation' ? [values['validation_nll'] ?? Infinity] : []));
    if (Number.isFinite(nll) && nll < Math.min(Infinity, ...earlier)) await this.#alarmed(() => this.#keepBest(step, nll));
    const seconds = (performance.now() - startedAtMs) / 1000;
    const counted = { demonstrations: this.#rows.length, demonstration_tokens: tokens, policy_version: progress.version };
    records.row({ kind: 'validation', step, values: { validation_nll: nll, ...counted, validation_seconds: seconds } });
  }

  get #paths() {
    const { best } = this.#parts.run.directory.paths;
    return { best, fresh: `${best}.new.tmp`, old: `${best}.old.tmp` };
  }

  /** Restores the old `best/` after a crash between the two renames of `#keepBest`. That validation runs again, because it has no row in the metrics. */
  async #putBack(): Promise<void> {
    const { best, old } = this.#paths;
    if (!existsSync(best) && existsSync(old)) await rename(old, best);
  }

  /** Replaces `best/`. If the folder exists, it is complete. */
  async #keepBest(step: number, nll: number): Promise<void> {
    const { best, fresh, old } = this.#paths;
    for (const path of [fresh, old]) await rm(path, { recursive: true, force: true });
    await mkdir(fresh);
    await this.#parts.session.backend.saveAdapter(`${fresh}/adapter`);
    await replaceFile(`${fresh}/validation.json`, (write) => write(Buffer.from(`${JSON.stringify({ step, validation_nll: nll })}\n`)));
    await rename(best, old).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
    await rename(fresh, best);
    await rm(old, { recursive: true, force: true });
  }

  /** If `best/` cannot be written, this raises an alarm and the run continues. */
  async #alarmed(write: () => Promise<void>): Promise<void> {
    try {
      await write();
    } catch (error) {
      if (error instanceof GradientError || (!(error instanceof ResultsError) && (error as NodeJS.ErrnoException).code === undefined)) throw error;
      const message = `Cannot write the best adapter ${this.#paths.best}: ${(error as Error).message}`;
      this.#parts.records.report({ kind: 'alarm', message });
    }
  }
}

function weighted(
  rows: readonly Trajectory[],
  logProbs: readonly Float64Array[],
): { readonly sum: number; readonly weight: number; readonly tokens: number } {
  let [sum, weight, tokens] = [0, 0, 0];
  for (const [i, own] of logProbs.entries()) {
    for (let t = 0; t < own.length; t++) {
      const factor = rows[i]!.weights?.[t] ?? 1;
      sum -= factor * own[t]!;
      weight += factor;
    }
    tokens += own.length;
  }
  return { sum, weight, tokens };
}
