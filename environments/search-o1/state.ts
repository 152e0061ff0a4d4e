import type { EpisodeState } from 'vf-search';

/** Counters of an episode. Rubrics can read them; results contain them on request. */
export interface SearchO1State extends EpisodeState {
  /** Searches executed; the queries in order, each once. */
  searches: number;
  queries: string[];
  /** Queries that had been searched before, and got a note. */
  repeated_queries: number;
  /** Queries after the last search that is allowed, and got a note. */
  refused_queries: number;
}
