/** A fault in one entry of a batch, as data in the entry's place. The other entries go on. */

export type EpisodeProblemType =
  /** No such episode: the id is wrong, or the episode was deleted or left alone too long. */
  | 'UnknownEpisodeError'
  /** The sample is for another turn, or another sample was given for this turn. */
  | 'TurnError'
  /** The sample is invalid: wrong kind, lengths or ids. Send another one for the same turn. */
  | 'SampleError'
  /** The answer is not there yet. Ask again. */
  | 'StepTimeoutError'
  /** The episode has ended; its reward waits for the rest of its group. Play those episodes, then ask again. */
  | 'GroupPendingError';

export interface EpisodeProblem {
  readonly type: EpisodeProblemType;
  readonly message: string;
  /** The same entry may succeed later. */
  readonly retryable: boolean;
}

export function problemOf(type: EpisodeProblemType, message: string): EpisodeProblem {
  return { type, message, retryable: type === 'StepTimeoutError' || type === 'GroupPendingError' };
}

/** The entry of an answer. */
export function problemLine(episodeId: string | null, error: EpisodeProblem): string {
  return JSON.stringify({ episode_id: episodeId, error });
}
