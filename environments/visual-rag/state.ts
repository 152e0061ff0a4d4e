import type { EpisodeState } from 'vf-search';
import type { ImageRef } from 'vf-search/environment-kit';
import type { Shown } from './reading.ts';

/** The state of an episode, for rewards and results. */
export interface VisualState extends EpisodeState {
  searches: number;
  crops: number;
  /** Turns without a usable action. */
  invalid_actions: number;
  /** The policy completed the search itself. */
  completed: boolean;
  /** The environment completed the search, because no turn was left. */
  forced: boolean;
  /** Names of the pages, in the order in which they were first shown. */
  pages: string[];
  /** Every page and crop that was shown, in order; a page that was shown again is there once. */
  evidence: Shown[];
  /** Pages that the searches found, by search. */
  found: (readonly string[])[];
}

/** The fields that the `finish` hook adds in phase 2. */
export interface FinishedState extends VisualState {
  /** The generator's answer; null if it was not asked. */
  readonly generated_answer: string | null;
  /** With `judge_sees: evidence`: the words or the picture of every page and crop that the generator saw. */
  readonly judged_evidence?: readonly (string | ImageRef)[];
}
