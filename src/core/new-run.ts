/** A run that may get further than the one that ended, from the same configuration. */
export interface NewRun {
  /** Worded to follow "train again". */
  readonly why: string;
  readonly flags: readonly string[];
}
