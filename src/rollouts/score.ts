import type { Row } from '../core/dataset.ts';
import type { RewardContext, Rubric } from '../core/rubric.ts';
import { type Rollout, rolloutError, withScore } from './rollout.ts';

/**
 * Scores the rollouts of one group. Failed rollouts stay out of it: they get no reward and group rewards never see them. When scoring
 * fails, every rollout scored together gets that error.
 */
export async function scoreRollouts<R extends Row>(rubric: Rubric<R>, rollouts: readonly Rollout<R>[], signal: AbortSignal): Promise<Rollout<R>[]> {
  const playable = rollouts.filter((r) => r.error === null);
  if (playable.length === 0) return [...rollouts];
  const startedAt = performance.now();
  const elapsed = () => performance.now() - startedAt;
  try {
    const scores = await rubric.scoreGroup(playable.map((r) => rewardContext(rubric, r, signal)));
    const scoreOf = new Map(playable.map((r, i) => [r, scores[i]!]));
    return rollouts.map((r) => (scoreOf.has(r) ? withScore(r, scoreOf.get(r)!, elapsed()) : r));
  } catch (cause) {
    const error = rolloutError(cause, 'scoring');
    return rollouts.map((r) => (r.error === null ? withScore(r, error, elapsed()) : r));
  }
}

function rewardContext<R extends Row>(rubric: Rubric<R>, rollout: Rollout<R>, signal: AbortSignal): RewardContext<R> {
  const { row, segments, stop, state } = rollout;
  let scoredText = '';
  let modelText = '';
  for (const segment of segments) {
    scoredText += segment.text;
    if (segment.kind === 'model') modelText += segment.text;
  }
  return { row, prompt: row.prompt, segments, scoredText, modelText, stop, state, parser: rubric.parser, signal };
}
