/**
 * Interface of a source of trajectories, on which a step trains. The trainer brings sources that sample rollouts, read rows of a data set, or read rollouts that
 * another program sampled. An environment or a user's module can bring its own, by exporting `createSource`, with several phases in a step.
 */
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import type { AskedRecord } from '../core/model.ts';
import type { TraceRecord } from '../rollouts/trace-records.ts';
import type { TrainingConfig } from '../schemas/training-config.ts';
import type { PlayedRoles } from './token-loss.ts';
import type { Trajectory } from './trajectory.ts';

export interface TrajectoryBatch {
  readonly trajectories: readonly Trajectory[];
  /** Rollouts that were played but are not trained on, such as groups that others replaced; the step's reward counts them. @default none */
  readonly discarded?: readonly Trajectory[];
  /** Those that the figures of the step count. Set by the run: each played rollout once, wherever the source returned it. @default trajectories and discarded */
  readonly played?: readonly Trajectory[];
  /** Number of times that the step was sampled; 0 if nothing was. @default 0 */
  readonly attempts?: number;
  /** Metrics of the source's own; those of a module are called `source/<name>`. @default none */
  readonly values?: Readonly<Record<string, number | null>>;
  /** Texts about the step that a user may want to read, such as an example: each is an event `note`. @default none */
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
  /** True if `take(step)` will ask the policy; if not, the weights before it need not be published. */
  needsPolicy(step: number): boolean;
  /** Writes what later steps depend on into a folder of a checkpoint. */
  saveState(directory: string): Promise<void>;
  /** Reads what `saveState` wrote. Called once, before the first `take`, and only if a run goes on from a checkpoint. */
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

/** The parts of a rollout that the files of a run hold. */
export interface RecordedRollout {
  readonly trajectory: Trajectory;
  readonly asked: readonly AskedRecord[];
  readonly trace: readonly TraceRecord[];
}

/** The rollouts of one step. Closed by `complete` or by disposing. */
export interface StepRollouts extends AsyncDisposable {
  readonly step: number;
  /** The recorded rollouts: the last line of each rollout id, in order of first appearance. Grows with `add`. */
  readonly recorded: readonly Trajectory[];
  /** True if the file has a closing line and as many rollouts as that line says. */
  readonly isComplete: boolean;
  /** From the closing line; without it, how often the most frequent rollout was recorded. 0 for a step without rollouts. */
  readonly attempts: number;
  /** The version that the step trained, if its closing line says so. */
  readonly version: number | null;
  /** Writes the rollout to the file before it returns, after what it asked of models by role and its trace. Throws ResultsError if it cannot. */
  add(trajectory: Trajectory, asked?: readonly AskedRecord[], trace?: readonly TraceRecord[]): void;
  /** Drops the recorded rollouts, because the whole step is sampled again. The file keeps their lines, and `attempts` counts them. */
  restart(): void;
  /** Closes the step; all of it is on disk once this resolves. `attempts`: how often the step was sampled, from 1. `version`: the version that the step trains. */
  complete(attempts: number, version?: number): Promise<void>;
}

/** A file of rollouts; without a phase, that of the step's only one. */
export interface PhaseName {
  readonly step: number;
  readonly phase: string | undefined;
}

/** The rollouts of a run. A rollout on file is not sampled again. */
export interface RolloutStore {
  /** Opens the rollouts of a step, or of a phase of it, for adding. Throws ResultsError if what is on file is damaged. */
  open(step: number, phase?: string): Promise<StepRollouts>;
  /** Steps and phases that have a file, complete or not, ascending by step. */
  phases(): Promise<PhaseName[]>;
  /** Deletes the rollouts of a phase, which must not be open. Throws ResultsError if it cannot. */
  discard(step: number, phase?: string): Promise<void>;
  /** Writes the rewards that a source gave to rollouts of a complete phase, in place of earlier ones. Throws ResultsError if it cannot. */
  pay(paid: readonly Trajectory[], step: number, phase?: string): Promise<void>;
}

/** The parts from which a source is made. */
export interface SourceContext {
  readonly config: TrainingConfig;
  readonly environment: Environment;
  /**
   * Plays rollouts with the policy that serves. Those on file are not played again; failed ones are, as the configuration says. The batch has one
   * trajectory per row and index, in this order.
   */
  readonly play: (plan: PhasePlan, signal: AbortSignal) => Promise<TrajectoryBatch>;
  /** For a source that records trajectories which `play` did not bring: trajectories on file are not taken again. */
  readonly store: RolloutStore;
  /** Supervised steps before the first step that the source takes. */
  readonly stepsBefore: number;
  /** True if all rollouts of a phase were on file when the run started. */
  readonly isRecorded: (step: number, phase?: string) => boolean;
}

/**
 * Exported next to `createSource`: with it, settings by role (β of `rpg`, `losses.*.roles`) are checked before anything is sampled.
 * @example export const playedRoles: DeclareRoles = () => ({ propose: {}, solve: { aliases: ['answer'] } });
 */
export type DeclareRoles = (context: Pick<SourceContext, 'config' | 'environment'>) => PlayedRoles;

/**
 * @example export const createSource: CreateSource = ({ play, environment, isRecorded }) => ({ ... });
 */
export type CreateSource = (context: SourceContext) => TrajectorySource;
