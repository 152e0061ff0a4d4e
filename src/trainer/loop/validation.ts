/** The loss on held-out demonstrations between supervised steps. */
import type { RunRecords } from '../records/run-records.ts';
import type { Trajectory } from '../trajectory.ts';
import { logProbPass } from '../gradients/log-prob-pass.ts';
import type { BestAdapter } from './best-adapter.ts';
import type { Progress } from './progress.ts';
import type { TokenBudget } from '../gradients/token-budget.ts';
import { supervisedSteps } from '../config/training-schedule.ts';
import type { MetricsRow } from '../training-observer.ts';
import type { TrainingRun, TrainingSession } from '../training-session.ts';

export interface ValidationParts {
  readonly run: TrainingRun;
  readonly records: RunRecords;
  readonly session: TrainingSession;
  readonly budget: TokenBudget;
  readonly progress: Progress;
  readonly best: Pick<BestAdapter, 'offer'>;
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

  async run(step: number): Promise<MetricsRow> {
    const { run, records, session, budget, progress, best, signal } = this.#parts;
    run.observer.onPhase?.('validation', step);
    const startedAtMs = performance.now();
    const logProbs = await logProbPass(this.#rows, 'on', { backend: session.backend, budget, temperature: 1, signal });
    const { sum, weight, tokens } = weighted(this.#rows, logProbs);
    const nll = sum / weight;
    await best.offer({ metric: 'validation_nll', step, version: progress.version, value: nll });
    const seconds = (performance.now() - startedAtMs) / 1000;
    const counted = { demonstrations: this.#rows.length, demonstration_tokens: tokens, policy_version: progress.version };
    const row = { kind: 'validation', step, values: { validation_nll: nll, ...counted, validation_seconds: seconds } } as const;
    records.row(row);
    return row;
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
