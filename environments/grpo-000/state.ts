import type { EpisodeState } from 'vf-search';

/** Counters of an episode. Rubrics can read them; results contain them on request. */
export interface GrpoState extends EpisodeState {
  /** Searches executed, failed ones included. */
  searches: number;
  /** Searches that failed and went on with an empty result. */
  failed_searches: number;
  /** The policy closed an answer. */
  answered: boolean;
  /** A think block is open. */
  thinking: boolean;
}
