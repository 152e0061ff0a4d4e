/** How a training run ended, and where its results are. */
export interface TrainingOutcome {
  /** `finished`: all steps are done. `stopped`: a guard or an error ended it. `interrupted`: a user or signal did. */
  readonly reason: 'finished' | 'stopped' | 'interrupted';
  /** The cause in one sentence; null if `reason` says enough. */
  readonly message: string | null;
  /** Steps done, those of earlier sessions included. */
  readonly step: number;
  /** Policy version served at the end; 0 is the initial policy. */
  readonly version: number;
  /** The version's name at the server. */
  readonly model: string;
  /** The run's folder. */
  readonly directory: string;
  /** PEFT directory of the newest checkpoint; null if nothing was trained. */
  readonly adapter: string | null;
  /** Newest checkpoint; null before the first. */
  readonly checkpoint: string | null;
  /** Plot files, in reading order. */
  readonly plots: readonly string[];
  /** Number of events of the run. */
  readonly events: number;
  /** Failed rollouts of the step or evaluation that ended the run; no row of the metrics counts them. */
  readonly failedRollouts: number;
  /** Whether the run can be resumed with -R. */
  readonly resumable: boolean;
}
