/** How a training run ended, and where what it made lies. */
export interface TrainingOutcome {
  /** `finished`: all steps were done. `stopped`: a guard or a fault ended it. `interrupted`: somebody did. */
  readonly reason: 'finished' | 'stopped' | 'interrupted';
  /** Why, in a sentence; null where `reason` says it all. */
  readonly message: string | null;
  /** Steps done, those of earlier sessions included. */
  readonly step: number;
  /** The version of the policy that serves at the end; 0 is the start. */
  readonly version: number;
  /** Its name at the server. */
  readonly model: string;
  /** The run's folder. */
  readonly directory: string;
  /** The PEFT directory of that version; null where nothing was trained. */
  readonly adapter: string | null;
  /** The newest checkpoint; null before the first. */
  readonly checkpoint: string | null;
  /** Files of the plots, in the order in which they are to be looked at. */
  readonly plots: readonly string[];
  /** Events of the run that a person may want to know of. */
  readonly events: number;
  /** The run can be continued with -R. */
  readonly resumable: boolean;
}
