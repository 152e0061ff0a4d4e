/** What a person who looks at a training run wants to know of it, kept from what the run tells. No clock, no terminal. */
import type { MetricsRow } from '../../trainer/metrics.ts';
import type { TrainingEvent, TrainingPhase } from '../../trainer/training-observer.ts';

export interface LiveState {
  readonly name: string;
  /** The run's folder, as it is to be shown. */
  readonly directory: string;
  /** Steps of the whole run. */
  readonly steps: number;
  readonly phase: { readonly name: TrainingPhase; readonly step: number } | null;
  /** Of the batch or evaluation in flight. */
  readonly rollouts: { readonly done: number; readonly total: number; readonly failed: number } | null;
  /** Rows of steps and of evaluations, by step; of earlier sessions too. */
  readonly rows: readonly MetricsRow[];
  readonly evaluations: readonly MetricsRow[];
  /** Events that are a reason to look, the newest last. */
  readonly warnings: readonly TrainingEvent[];
  /** Seconds since the view began: when the first batch began, then when each step of this session ended. */
  readonly marks: readonly number[];
}

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
    rows: rows.filter(({ kind }) => kind === 'step'),
    evaluations: rows.filter(({ kind }) => kind === 'evaluation'),
    warnings: [],
    marks: [],
  };
}

export function withPhase(state: LiveState, phase: { readonly name: TrainingPhase; readonly step: number }, seconds: number): LiveState {
  const isFirstBatch = phase.name === 'rollouts' && state.marks.length === 0;
  // What is sampled while another phase goes on is the next batch's: it stays until it is whole.
  const rollouts = state.rollouts !== null && state.rollouts.done < state.rollouts.total ? state.rollouts : null;
  return { ...state, phase, rollouts, marks: isFirstBatch ? [seconds] : state.marks };
}

/** A step that was done before and is done again, after a fault, takes the place of its row and of all that came after it. */
export function withStep(state: LiveState, row: MetricsRow, seconds: number): LiveState {
  const evaluations = state.evaluations.filter(({ step }) => step < row.step);
  return { ...state, rows: replaced(state.rows, row), evaluations, marks: [...state.marks, seconds] };
}

export function withEvaluation(state: LiveState, row: MetricsRow): LiveState {
  return { ...state, evaluations: replaced(state.evaluations, row), rollouts: null };
}

export function withEvent(state: LiveState, event: TrainingEvent): LiveState {
  return isWarning(event) ? { ...state, warnings: [...state.warnings, event] } : state;
}

const HARMLESS: ReadonlySet<TrainingEvent['kind']> = new Set(['started', 'resumed', 'finished', 'policy_recovered']);

export function isWarning({ kind }: TrainingEvent): boolean {
  return !HARMLESS.has(kind);
}

/** Steps done. */
export function stepsDone({ rows }: LiveState): number {
  return rows.at(-1)?.step ?? 0;
}

/** How many of the latest steps say how long the next ones take: long enough to be steady, short enough to follow a change. */
const PACE_STEPS = 20;

/** Seconds until the last step is done, `seconds` after the view began; null before this session has finished one. Evaluations between steps count. */
export function secondsLeft(state: LiveState, seconds: number): number | null {
  const marks = state.marks.slice(-PACE_STEPS - 1);
  if (marks.length < 2) return null;
  const last = marks.at(-1)!;
  const pace = (last - marks[0]!) / (marks.length - 1);
  return Math.max(0, (state.steps - stepsDone(state)) * pace - (seconds - last));
}

function replaced(rows: readonly MetricsRow[], row: MetricsRow): MetricsRow[] {
  return [...rows.filter(({ step }) => step < row.step), row];
}
