/**
 * Interface of what a step trains on. The trainer brings sources that sample rollouts, read rows of a data set, or read rollouts that another program sampled; an environment or a
 * user's module can bring its own, by exporting `createSource`, with several phases in a step.
 */
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import type { RolloutStore } from './records/rollout-store.ts';
import type { Trajectory } from './trajectory.ts';

export interface TrajectoryBatch {
  readonly trajectories: readonly Trajectory[];
  /** Rollouts that were played but are not trained on, such as groups that others replaced; the step's reward counts them. @default none */
  readonly discarded?: readonly Trajectory[];
  /** How often the step was sampled; 0 if nothing was. @default 0 */
  readonly attempts?: number;
  /** Metrics of the source's own, by their names in metrics.ts, or `source/<name>`. @default none */
  readonly values?: Readonly<Record<string, number | null>>;
  /** What a user may want to read about the step, such as an example: each is an event `note`. @default none */
  readonly notes?: readonly string[];
  /**
   * Rows by the name of their file (letters, digits and dashes). Once the step is recorded, the run appends them to `source/<name>.jsonl`, each with its `step`; a
   * resumed run drops those of the steps that it takes again. @default none
   */
  readonly records?: Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>;
}

export interface TrajectorySource {
  /**
   * The trajectories of a step, from 1. Whatever it samples is on file first (`SourceContext.play` does that), so that a resumed run gets the same batch.
   * Throws TrainingError if it cannot bring one, CancelledError when the signal aborts.
   */
  take(step: number, signal: AbortSignal): Promise<TrajectoryBatch>;
  /** Whether `take(step)` will ask the policy; if not, the weights before it need not be published. */
  needsPolicy(step: number): boolean;
  /** Writes what later steps depend on into a folder of a checkpoint. */
  saveState(directory: string): Promise<void>;
  /** Reads what `saveState` wrote. Called once, before the first `take`, and only where a run goes on from a checkpoint. */
  loadState(directory: string): Promise<void>;
  /** Waits until nothing is sampled any more. Called once, after the signal of the last `take` was aborted. @default nothing to wait for */
  close?(): Promise<void>;
}

/** Rollouts of one phase of a step. */
export interface PhasePlan {
  readonly step: number;
  /** Its own file: `step-000012.<phase>.jsonl`. Letters, digits and dashes, but not `asked`; a step plays it once. @default the step's only phase */
  readonly phase?: string;
  /** Role of its trajectories. @default 'policy' */
  readonly role?: string;
  readonly rows: readonly Row[];
  /** @default rollouts.rollouts_per_example */
  readonly rolloutsPerExample?: number;
  /**
   * Its rewards are known only when others have played: its trajectories come and are recorded without one, though with the rubric's metrics, and the source
   * gives them one by `withReward`, again after a resume. @default false
   */
  readonly isPaidLater?: boolean;
  /** @default the run's environment */
  readonly environment?: Environment;
}

/** What a source is made of. */
export interface SourceContext {
  readonly config: TrainingConfig;
  readonly environment: Environment;
  /**
   * Plays rollouts with the policy that serves. Those on file are not played again; failed ones are, as the configuration says. The batch has one
   * trajectory per row and index, in this order.
   */
  readonly play: (plan: PhasePlan, signal: AbortSignal) => Promise<TrajectoryBatch>;
  /** For a source that records trajectories which `play` did not bring: what is on file is not taken again. */
  readonly store: RolloutStore;
  /** Whether all rollouts of a phase were on file when the run started. */
  readonly isRecorded: (step: number, phase?: string) => boolean;
}

/**
 * @example export const createSource: CreateSource = ({ play, environment, isRecorded }) => ({ ... });
 */
export type CreateSource = (context: SourceContext) => TrajectorySource;
