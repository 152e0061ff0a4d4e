import { rewardColumn, stretches, type WireTurns } from '../schemas/turn-columns.ts';
import type { Generation } from './rollout.ts';

/**
 * The columns of the turns of a rollout. None for a rollout whose context was cut so that tokens of its turns are gone.
 * @param targets indices of its sampled tokens, ascending; null in chat mode
 */
export function turnsOfGenerations(generations: readonly Pick<Generation, 'keptTokens' | 'reward'>[], targets: ArrayLike<number> | null): WireTurns {
  const rewards = rewardColumn(generations.map(({ reward }) => reward ?? null));
  if (targets === null) return rewards;
  const tokens = generations.map(({ keptTokens }) => keptTokens ?? 0);
  const found = stretches(targets);
  if (tokens.length === found.length && tokens.every((count, i) => count === found[i])) return rewards;
  return tokens.reduce((sum, count) => sum + count, 0) === targets.length ? { turn_tokens: tokens, ...rewards } : {};
}
