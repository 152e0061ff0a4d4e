/**
 * Says when a version of the policy is usable: its weights and log-probs are finite, the run's servers serve it, and its evaluation was played by itself. Checkpoints,
 * summaries, plots, cards, pushes, exit codes and resumes go by this and by nothing else. A version has the number of the step that made it; version 0 is the policy at the start.
 */
import { GradientError } from '../../core/errors.ts';
import { microBatchOf } from '../gradients/pack-batches.ts';
import type { GradientComputation } from '../gradient-backend.ts';
import type { MetricsRow } from '../training-observer.ts';
import { isRepeated, SKIP_REMEDIES, type SkipReason } from '../skip-reason.ts';
import { type TokenPart, tokenParts } from '../trajectory-branches.ts';
import type { Trajectory } from '../trajectory.ts';

/** A sequence may have no finite log-probs by itself, so several are tried. */
const MOST_PROBED = 4;

type Probed = TokenPart & Pick<Trajectory, 'branches'>;

/** Says why the backend's weights cannot be used: they, Adam's moments or the log-probs of all of these sequences are not finite. Null if they can. */
export async function weightsFault(
  backend: Pick<GradientComputation, 'forward' | 'isFinite'>,
  sequences: readonly Probed[],
  signal: AbortSignal,
): Promise<string | null> {
  if (!(await backend.isFinite())) return 'the weights or the moments of the optimiser are not finite';
  const probed = sequences
    .flatMap(tokenParts)
    .filter(({ targets }) => targets.length > 0)
    .toSorted((a, b) => a.ids.length - b.ids.length);
  for (const sequence of probed.slice(0, MOST_PROBED)) if (await hasFiniteLogProbs(backend, sequence, signal)) return null;
  return probed.length === 0 ? null : 'the log-probs of its model are not finite';
}

async function hasFiniteLogProbs(backend: Pick<GradientComputation, 'forward'>, sequence: TokenPart, signal: AbortSignal): Promise<boolean> {
  try {
    const { batch } = microBatchOf([sequence], [0], 1);
    return (await backend.forward(batch, { retain: false, adapter: 'on', signal })).logProbs.every(Number.isFinite);
  } catch (error) {
    if (error instanceof GradientError && error.code === 'not_finite') return false;
    throw error;
  }
}

/** A text that every model can read. */
export function plainProbe(vocabularySize: number): Probed {
  const ids = Int32Array.from({ length: 16 }, (_, i) => i % vocabularySize);
  return { ids, targets: Int32Array.from({ length: ids.length - 1 }, (_, i) => i + 1) };
}

export function doneText(steps: number): string {
  return steps === 1 ? 'The only step is done' : `All ${steps} steps are done`;
}

/**
 * Says that a run has no result, because its steps left the policy as it was.
 * @param last why the last step was skipped; null if an earlier process took it
 */
export function unchangedText(steps: number, last: SkipReason | null): string {
  const why =
    last === null
      ? `${steps === 1 ? 'it was skipped, and its' : 'each was skipped, and its'} step_skipped event says why`
      : `${steps === 1 ? 'it was skipped' : 'each was skipped, the last'} because ${last.text}. ${SKIP_REMEDIES[last.kind]}`;
  return `${doneText(steps)}, but the policy is unchanged: ${why}. Start a new run with other settings${isRepeated(last) ? '' : ', or take further steps with -R and a larger --steps'}`;
}

export interface ServedVersion {
  /** The version of the trainer's weights. */
  readonly trained: number;
  /** The version that the servers have; null if they have none of the run. */
  readonly serves: number | null;
  /** Why the last attempt to publish failed; null if there was none. */
  readonly why: string | null;
}

/** Says why a run whose steps are all done has not finished: its last version does not serve. Null if it does. */
export function servingFault({ trained, serves, why }: ServedVersion): string | null {
  if (serves === trained) return null;
  const instead = (serves ?? 0) === 0 ? 'the servers still have the base' : `the servers still have version ${serves}`;
  return (
    `All steps are done, but their result, version ${trained}, does not serve: ${instead}${why === null ? '' : `, because a publish failed: ${why}`}. ` +
    'It is in the last checkpoint. -R publishes it again and plays its evaluation'
  );
}

/** True if the evaluation was played by the version that its step left. A row without the version counts as its own: every rollout of it failed. */
export function isOwnEvaluation({ values }: MetricsRow, version: number): boolean {
  return (values['policy_version'] ?? version) === version;
}

/** Places the rows that it is given, in order: each evaluation at the step of the version that played it. While a publish fails, an older version serves. */
export function evaluationPlacer(): <T extends MetricsRow>(row: T) => T {
  let last: { readonly step: number; readonly version: number | null } = { step: 0, version: 0 };
  return (row) => {
    const version = row.values['policy_version'] ?? null;
    if (row.kind === 'step') last = { step: row.step, version };
    if (row.kind !== 'evaluation' || row.step !== last.step || last.version === null || isOwnEvaluation(row, last.version)) return row;
    return { ...row, step: version! };
  };
}

/** The rows without evaluations that are known to have been played with another setup than this one: their rewards have another scale. @param setup null: unknown, so all are kept */
export function comparableEvaluations<T extends MetricsRow>(rows: readonly T[], setup: number | null): readonly T[] {
  return setup === null ? rows : rows.filter(({ kind, values }) => kind !== 'evaluation' || (values['evaluation_setup'] ?? setup) === setup);
}

/** As `comparableEvaluations`, with the setup of the newest evaluation. */
export function newestEvaluations<T extends MetricsRow>(rows: readonly T[]): readonly T[] {
  return comparableEvaluations(rows, rows.findLast(({ kind }) => kind === 'evaluation')?.values['evaluation_setup'] ?? null);
}

/** The evaluations of the newest setup, at the steps of the versions that played them, one for each step: the version's own if there is one, else the first. */
export function evaluationsOf<T extends MetricsRow>(rows: readonly T[]): T[] {
  const found = new Map<number, { readonly row: T; readonly isOwn: boolean }>();
  const place = evaluationPlacer();
  for (const row of newestEvaluations(rows)) {
    const placed = place(row);
    if (placed.kind !== 'evaluation') continue;
    const isOwn = placed === row;
    const known = found.get(placed.step);
    if (known === undefined || (isOwn && !known.isOwn)) found.set(placed.step, { row: placed, isOwn });
  }
  return [...found.values()].map(({ row }) => row).toSorted((a, b) => a.step - b.step);
}

/** False if the last step was evaluated by another version than the one that it left: that one never served, whatever `run.json` says. */
export function isEvaluatedByItself(rows: readonly MetricsRow[], { step, version }: { readonly step: number; readonly version: number }): boolean {
  const evaluations = rows.filter((row) => row.kind === 'evaluation' && row.step === step);
  return evaluations.length === 0 || evaluations.some((row) => isOwnEvaluation(row, version));
}

/** The newest evaluation of the version that a step left; null if it was never evaluated. */
export function evaluationAfter<T extends MetricsRow>(rows: readonly T[], step: number): T | null {
  const version = rows.findLast((row) => row.kind === 'step' && row.step <= step)?.values['policy_version'] ?? step;
  return (
    newestEvaluations(rows).findLast(
      (row) => row.kind === 'evaluation' && row.step <= step && (row.values['policy_version'] ?? row.step) === version,
    ) ?? null
  );
}
