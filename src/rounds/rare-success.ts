/** Chooses the rollouts that become demonstrations (DDAI, extract_trajectories): the best of prompts that sometimes succeed. Pure. */
import { isJudged, scoredRollouts, type TracedRollout, turnsOf } from './traced-rollouts.ts';

/** The rollouts that are kept; a missing field restricts nothing. */
export interface RolloutFilter {
  /** Lowest reward of a rollout. @default 0 */
  readonly minScore?: number;
  /** Lowest score by the judge. @default none */
  readonly minJudge?: number;
  /** Lowest NDCG. @default 0 */
  readonly minNdcg?: number;
  /** Most turns of the policy. @default no bound */
  readonly maxTurns?: number;
  /** Most rollouts of a prompt, by reward, then by NDCG. @default all, in their order */
  readonly top?: number;
  /** Lowest share of a prompt's rollouts that succeed. @default 0 */
  readonly minSuccessRate?: number;
  /** Highest share of a prompt's rollouts that succeed. @default 1 */
  readonly maxSuccessRate?: number;
  /** The measure of a success. @default 'score' */
  readonly successMetric?: 'score' | 'judge';
  /** The lowest value of a success. @default the lowest kept value of the metric; 1 for a judge without one */
  readonly successThreshold?: number;
}

export interface KeptPrompt {
  readonly prompt: string;
  readonly kept: readonly TracedRollout[];
  readonly successes: number;
  /** Share of successes among all rollouts of the prompt; if the judge measures, among those of runs that called it. */
  readonly successRate: number;
}

/** The prompts with at least one rollout that is kept, in the order of their first rollouts. */
export function keepRollouts(rollouts: readonly TracedRollout[], filter: RolloutFilter): KeptPrompt[] {
  const { minScore = 0, minJudge, minNdcg = 0, maxTurns, top, minSuccessRate = 0, maxSuccessRate = Infinity, successMetric = 'score' } = filter;
  const threshold = filter.successThreshold ?? (successMetric === 'judge' ? (minJudge ?? 1) : minScore);
  const kept: KeptPrompt[] = [];
  const scored = scoredRollouts(rollouts, successMetric === 'judge' ? 'judge' : 'reward');
  const scores = Map.groupBy(scored, ({ rollout }) => rollout.prompt);
  for (const [prompt, group] of Map.groupBy(rollouts, (rollout) => rollout.prompt)) {
    const own = scores.get(prompt);
    if (own === undefined) continue;
    const successes = own.filter(({ score }) => score >= threshold).length;
    const successRate = successes / own.length;
    if (successRate < minSuccessRate || successRate > maxSuccessRate) continue;
    const good = group.filter(
      (rollout) =>
        rollout.reward >= minScore &&
        (minJudge === undefined || (isJudged(rollout) && rollout.judge >= minJudge)) &&
        (rollout.ndcg ?? 0) >= minNdcg &&
        (maxTurns === undefined || turnsOf(rollout) <= maxTurns),
    );
    if (good.length === 0) continue;
    const best = top === undefined ? good : good.toSorted((a, b) => b.reward - a.reward || (b.ndcg ?? 0) - (a.ndcg ?? 0)).slice(0, top);
    kept.push({ prompt, kept: best, successes, successRate });
  }
  return kept;
}
