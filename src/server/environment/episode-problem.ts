/** What goes wrong with one entry of a batch, as data in its place. The others go on. */

export type EpisodeProblemType =
  /** No such episode: a wrong id, or it was deleted or left alone too long. */
  | 'UnknownEpisodeError'
  /** The sample is for another turn, or another sample was given for this turn. */
  | 'TurnError'
  /** The sample cannot be one: wrong kind, lengths, ids. Send another one for the same turn. */
  | 'SampleError'
  /** The answer is not there yet. Ask again. */
  | 'StepTimeoutError'
  /** The episode has ended; its reward waits for the others of its group. Play those, then ask again. */
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
