import type { Row } from '../core/dataset.ts';
import { CancelledError } from '../core/errors.ts';
import type { RewardContext, Rubric } from '../core/rubric.ts';
import { type Rollout, rolloutError, withScore } from './rollout.ts';
import { isCancelled, untilAborted } from './until-aborted.ts';

/**
 * Scores the rollouts of one group. Failed rollouts stay out of it: they get no reward and group rewards never see them. When scoring
 * fails, every rollout scored together gets that error. Throws CancelledError when the signal aborts for anything but a TimeoutError.
 */
export async function scoreRollouts<R extends Row>(rubric: Rubric<R>, rollouts: readonly Rollout<R>[], signal: AbortSignal): Promise<Rollout<R>[]> {
  const playable = rollouts.filter((r) => r.error === null);
  if (playable.length === 0) return [...rollouts];
  const startedAt = performance.now();
  const elapsed = () => performance.now() - startedAt;
  try {
    const contexts = playable.map((r) => rewardContext(rubric, r, signal));
    const scores = await untilAborted(rubric.scoreGroup(contexts), signal);
    const scoreOf = new Map(playable.map((r, i) => [r, scores[i]!]));
    return rollouts.map((r) => (scoreOf.has(r) ? withScore(r, scoreOf.get(r)!, elapsed()) : r));
  } catch (cause) {
    if (isCancelled(signal)) throw new CancelledError('The run was cancelled', { cause: signal.reason });
    const error = rolloutError(signal.aborted ? signal.reason : cause, 'scoring');
    return rollouts.map((r) => (r.error === null ? withScore(r, error, elapsed()) : r));
  }
}

function rewardContext<R extends Row>(rubric: Rubric<R>, rollout: Rollout<R>, signal: AbortSignal): RewardContext<R> {
  const { row, prompt, segments, stop, state } = rollout;
  let scoredText = '';
  let modelText = '';
  for (const segment of segments) {
    scoredText += segment.text;
    if (segment.kind === 'model') modelText += segment.text;
  }
  return { row, prompt, segments, scoredText, modelText, stop, state, parser: rubric.parser, signal };
}
