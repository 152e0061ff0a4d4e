import type { EpisodeState } from 'vf-search';

/** What an episode counts, named as upstream logs it; readable by rubrics and written to results on request. */
export interface SearchR1State extends EpisodeState {
  /** Generations that held an action, the last one included. */
  valid_action: number;
  /** Generations whose action was a search, executed or not. */
  valid_search: number;
  /** Searches executed. */
  searches: number;
  answered: boolean;
}
