/** An event of an episode, for the trace of the run. */
export interface EpisodeEvent {
  /** `model.turn`, or the environment's own name: `search.request`, `crop`. */
  readonly event: string;
  /** Turn of the policy, from 0 up. */
  readonly turn: number;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  /** Plain data. */
  readonly fields: Readonly<Record<string, unknown>>;
}
