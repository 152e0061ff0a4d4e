/** Callbacks that report the progress of a training run. They cannot affect it. */
import type { RolloutError } from '../rollouts/rollout.ts';
import type { SkipKind } from './skip-reason.ts';

/** Phases of a step, in order. With `max_staleness` above 0, `rollouts` is the wait for them. */
export const TRAINING_PHASES = ['rollouts', 'forward', 'backward', 'update', 'publish', 'validation', 'evaluation', 'checkpoint'] as const;
export type TrainingPhase = (typeof TRAINING_PHASES)[number];

export interface SettingChange {
  /** Dotted, snake_case; `files.<key>` for the contents of the files that a setting names. */
  readonly key: string;
  readonly before: unknown;
  readonly after: unknown;
}

/** Something that a user may want to know afterwards. */
export interface TrainingEvent {
  readonly step: number;
  readonly kind:
    | 'started'
    | 'resumed'
    | 'settings_changed'
    | 'alarm'
    | 'note'
    | 'step_skipped'
    | 'step_repeated'
    | 'evaluation_repeated'
    | 'publish_failed'
    | 'policy_lost'
    | 'policy_recovered'
    | 'replica_lost'
    | 'replica_recovered'
    | 'backend_lost'
    | 'token_budget_halved'
    | 'token_budget_raised'
    | 'stopped'
    | 'finished';
  readonly message: string;
  /** What holds from the next step on, in place of what held before. */
  readonly changes?: readonly SettingChange[];
  /** Of a `step_skipped`: the kind of its reason. */
  readonly reason?: SkipKind;
  /** The stack of the error behind it, for a developer's terminal; no file holds it. */
  readonly stack?: string | null;
}

/** One line of `metrics.jsonl`. */
export interface MetricsRow {
  readonly kind: 'step' | 'evaluation' | 'validation';
  /** Number of finished steps at the time of measurement; 0 at the start. */
  readonly step: number;
  readonly values: Readonly<Record<string, number | null>>;
}

/** A row as recorded on disk. */
export interface RecordedMetricsRow extends MetricsRow {
  /** The time at which it was written, ISO 8601. */
  readonly time: string;
}

/** The state in which a run starts or continues. */
export interface TrainingStart {
  /** Steps finished. Rows of later steps that were reported before do not count: they will be measured again. */
  readonly step: number;
  /** The rows on file, of this process and of earlier ones. */
  readonly rows: readonly RecordedMetricsRow[];
}

export interface FailedRollout {
  readonly step: number;
  readonly rolloutId: string;
  readonly error: RolloutError;
}

export interface TrainingObserver {
  /** Called at the start, at a resume, and again if a lost backend takes the run back to its last checkpoint. */
  onStart?(start: TrainingStart): void;
  onPhase?(phase: TrainingPhase, step: number): void;
  /** Progress of the current batch or evaluation. */
  onRollouts?(progress: { readonly step: number; readonly done: number; readonly total: number; readonly failed: number }): void;
  onFailedRollout?(failure: FailedRollout): void;
  onStep?(row: RecordedMetricsRow): void;
  onEvaluation?(row: RecordedMetricsRow): void;
  onValidation?(row: RecordedMetricsRow): void;
  onEvent?(event: TrainingEvent): void;
}

/** One observer that calls all of them, in order. */
export function joinObservers(observers: readonly TrainingObserver[]): TrainingObserver {
  return {
    onStart: (start) => observers.forEach((observer) => observer.onStart?.(start)),
    onPhase: (phase, step) => observers.forEach((observer) => observer.onPhase?.(phase, step)),
    onRollouts: (progress) => observers.forEach((observer) => observer.onRollouts?.(progress)),
    onFailedRollout: (failure) => observers.forEach((observer) => observer.onFailedRollout?.(failure)),
    onStep: (row) => observers.forEach((observer) => observer.onStep?.(row)),
    onEvaluation: (row) => observers.forEach((observer) => observer.onEvaluation?.(row)),
    onValidation: (row) => observers.forEach((observer) => observer.onValidation?.(row)),
    onEvent: (event) => observers.forEach((observer) => observer.onEvent?.(event)),
  };
}

/** A metric of a row; null if it was not measured or is not finite. */
export function metricValue({ values }: MetricsRow, name: string): number | null {
  const value = values[name] ?? null;
  return value !== null && Number.isFinite(value) ? value : null;
}

/** Finished rollouts of a step or an evaluation that a length limit cut short. */
export function truncatedRollouts(row: MetricsRow): number {
  return Math.round((metricValue(row, 'truncated') ?? 0) * (metricValue(row, 'rollouts') ?? 0));
}
