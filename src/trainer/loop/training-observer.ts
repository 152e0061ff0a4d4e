/** Callbacks that report the progress of a training run. They cannot affect it. */
import type { RolloutError } from '../../rollouts/rollout.ts';
import type { MetricsRow } from '../records/metrics.ts';

/** Phases of a step, in order. With `max_staleness` 1, `rollouts` is the wait for them. */
export const TRAINING_PHASES = ['rollouts', 'forward', 'backward', 'update', 'publish', 'validation', 'evaluation', 'checkpoint'] as const;
export type TrainingPhase = (typeof TRAINING_PHASES)[number];

/** Something that a user may want to know afterwards. */
export interface TrainingEvent {
  readonly step: number;
  readonly kind:
    | 'started'
    | 'resumed'
    | 'alarm'
    | 'step_skipped'
    | 'step_repeated'
    | 'evaluation_repeated'
    | 'publish_failed'
    | 'policy_lost'
    | 'policy_recovered'
    | 'backend_lost'
    | 'token_budget_halved'
    | 'stopped'
    | 'finished';
  readonly message: string;
  /** Of the error behind it, for the terminal of a developer; no file holds it. */
  readonly stack?: string | null;
}

export interface TrainingObserver {
  onPhase?(phase: TrainingPhase, step: number): void;
  /** Progress of the current batch or evaluation. */
  onRollouts?(progress: { readonly step: number; readonly done: number; readonly total: number; readonly failed: number }): void;
  onFailedRollout?(failure: { readonly step: number; readonly rolloutId: string; readonly error: RolloutError }): void;
  onStep?(row: MetricsRow): void;
  onEvaluation?(row: MetricsRow): void;
  onValidation?(row: MetricsRow): void;
  onEvent?(event: TrainingEvent): void;
}
