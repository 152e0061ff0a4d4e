/** State of the live view, collected from the run's events. No clock, no terminal. */
import type { MetricsRow, TrainingEvent, TrainingPhase } from '../../trainer/training-observer.ts';
import { evaluationsOf } from '../../trainer/records/usable-version.ts';
import type { EvaluationLabel } from '../../reports/training/evaluation-label.ts';

export interface LiveState {
  readonly name: string;
  /** The run's folder, as displayed. */
  readonly directory: string;
  /** Steps of the whole run. */
  readonly steps: number;
  readonly phase: { readonly name: TrainingPhase; readonly step: number } | null;
  /** Progress of the current batch or evaluation. */
  readonly rollouts: { readonly done: number; readonly total: number; readonly failed: number } | null;
  /** Rows of steps, by step, those of earlier sessions included. All but the newest hold the mean reward only: a long run would fill the memory with numbers that are never shown. */
  readonly rows: readonly MetricsRow[];
  /** Rows of evaluations, by step. */
  readonly evaluations: readonly MetricsRow[];
  /** Name of the evaluation rows. */
  readonly evaluationLabel: EvaluationLabel;
  /** Number of events that need attention, and the newest of them. */
  readonly warnings: { readonly count: number; readonly last: TrainingEvent | null };
  /** Seconds since the view opened: the start of the first batch, then the end of each step of this session; the newest of them. */
  readonly marks: readonly number[];
}

/** Number of latest steps that predict the duration of the next ones: enough to be steady, few enough to follow a change. */
const PACE_STEPS = 20;

export function liveState(run: {
  readonly name: string;
  readonly directory: string;
  readonly steps: number;
  readonly rows: readonly MetricsRow[];
}): LiveState {
  const { name, directory, steps, rows } = run;
  return {
    name,
    directory,
    steps,
    phase: null,
    rollouts: null,
    rows: rows.filter(({ kind }) => kind === 'step').map((row, i, { length }) => (i === length - 1 ? row : rewardOf(row))),
    evaluations: evaluationsOf(rows),
    evaluationLabel: 'held-out',
    warnings: { count: 0, last: null },
    marks: [],
  };
}

export function withPhase(state: LiveState, phase: { readonly name: TrainingPhase; readonly step: number }, seconds: number): LiveState {
  const isFirstBatch = phase.name === 'rollouts' && state.marks.length === 0;
  // Rollouts sampled during another phase belong to the next batch: they stay until it is complete.
  const rollouts = state.rollouts !== null && state.rollouts.done < state.rollouts.total ? state.rollouts : null;
  return { ...state, phase, rollouts, marks: isFirstBatch ? [seconds] : state.marks };
}

/** A step that is repeated after a failure replaces its old row and all later rows. */
export function withStep(state: LiveState, row: MetricsRow, seconds: number): LiveState {
  const evaluations = state.evaluations.filter(({ step }) => step < row.step);
  const marks = [...state.marks, seconds].slice(-PACE_STEPS - 1);
  const newest = state.rows.at(-1);
  const rows = replaced(state.rows, row).map((each) => (each === newest ? rewardOf(each) : each));
  return { ...state, rows, evaluations, marks };
}

export function withEvaluation(state: LiveState, row: MetricsRow): LiveState {
  return { ...state, evaluations: replaced(state.evaluations, row), rollouts: null };
}

export function withEvent(state: LiveState, event: TrainingEvent): LiveState {
  return isWarning(event) ? { ...state, warnings: { count: state.warnings.count + 1, last: event } } : state;
}

const HARMLESS: ReadonlySet<TrainingEvent['kind']> = new Set(['note', 'started', 'resumed', 'finished', 'policy_recovered', 'replica_recovered']);

export function isWarning({ kind }: TrainingEvent): boolean {
  return !HARMLESS.has(kind);
}

/** Steps done. */
export function stepsDone({ rows }: LiveState): number {
  return rows.at(-1)?.step ?? 0;
}

/** Seconds until the last step is done, `seconds` after the view opened; null before this session's first finished step. Includes evaluations between steps. */
export function secondsLeft(state: LiveState, seconds: number): number | null {
  const { marks } = state;
  if (marks.length < 2) return null;
  const last = marks.at(-1)!;
  const pace = (last - marks[0]!) / (marks.length - 1);
  return Math.max(0, (state.steps - stepsDone(state)) * pace - (seconds - last));
}

function rewardOf({ kind, step, values }: MetricsRow): MetricsRow {
  return { kind, step, values: { reward_mean: values['reward_mean'] ?? null } };
}

function replaced(rows: readonly MetricsRow[], row: MetricsRow): MetricsRow[] {
  return [...rows.filter(({ step }) => step < row.step), row];
}
