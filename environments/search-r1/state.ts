import type { EpisodeState } from 'vf-search';

/** Counters of an episode, with upstream's names. Rubrics can read them; results contain them on request. */
export interface SearchR1State extends EpisodeState {
  /** Generations with an action, the last one included. */
  valid_action: number;
  /** Generations whose action was a search, executed or not. */
  valid_search: number;
  /** Searches executed. */
  searches: number;
  answered: boolean;
}
