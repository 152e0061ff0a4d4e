/** What training made of the rewards: the part of `view-wire.ts` about credit. */

export interface RolloutCredit {
  /** Mean over its trained tokens, with which the step trained; null if it took no part, is not known, or was not trained. */
  readonly advantage: number | null;
  /** By turn, null for a turn that took no part; null if all of its tokens have the same. */
  readonly turn_advantages: readonly (number | null)[] | null;
}

/** Of a turn of the model. */
export interface TurnFigures {
  /** What the environment said that it was worth by itself; absent if it said nothing. */
  readonly reward?: number;
  /** Absent if the rollout has one advantage for all of its turns. */
  readonly advantage?: number;
}
