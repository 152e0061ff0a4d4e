/** What the record of a run says that a reader of its figures should know. */
import type { Environment } from '../core/environment.ts';
import type { RecordedRollout } from './recorded-rollout.ts';

/** The metric that counts exact matches with an answer that the model did not write. */
export const UNWRITTEN_ANSWER = 'em_without_answer';

export function runNotices(
  rollouts: readonly RecordedRollout[],
  { limits, limitArguments = {} }: Pick<Environment, 'limits' | 'limitArguments'>,
): string[] {
  const finished = rollouts.filter(({ error }) => error === null);
  const cut = finished.filter(({ cutObservations }) => cutObservations > 0);
  const unwritten = finished.filter(({ metrics }) => (metrics[UNWRITTEN_ANSWER] ?? 0) > 0);
  const notices: string[] = [];
  if (cut.length > 0) {
    const observations = cut.reduce((sum, { cutObservations }) => sum + cutObservations, 0);
    const key = limitArguments.observationTokens;
    const remedy = key === undefined ? 'raise that limit' : `raise ${key}`;
    notices.push(
      `${observations} observations in ${cut.length} of ${finished.length} rollouts were cut to their first ${limits.observationTokens} tokens, closing tag ` +
        `and later passages included; ${remedy} to keep them whole.`,
    );
  }
  if (unwritten.length > 0) {
    notices.push(
      `${unwritten.length} of ${finished.length} rollouts have an exact match with an answer that the model did not write: a passage or the prompt holds ` +
        'it between answer tags.',
    );
  }
  return notices;
}
