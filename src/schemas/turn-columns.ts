/** The turns of a rollout on file and wire: how many sampled tokens each has, and what the environment said that it was worth by itself. */
import type { XStatic } from 'typebox/schema';
import { count, listOf, numberOrNull, object } from './json-schema.ts';

/** All optional. With an entry for each turn. [turns] */
export const turnColumns = {
  /** Number of its sampled tokens. Absent if each stretch of sampled tokens is one turn. */
  turn_tokens: listOf(count),
  /** What the environment's `step` said that it was worth by itself, null where it said nothing. Absent if it rewarded no turn. */
  turn_rewards: listOf(numberOrNull),
} as const;

const TurnsSchema = object({}, turnColumns);
export type WireTurns = XStatic<typeof TurnsSchema>;

/** Absent if no turn has a reward. */
export function rewardColumn(rewards: readonly (number | null)[]): Pick<WireTurns, 'turn_rewards'> {
  return rewards.some((reward) => reward !== null) ? { turn_rewards: [...rewards] } : {};
}

/** Number of tokens in each stretch of sampled tokens without others between them. @param targets indices of the sampled tokens, ascending */
export function stretches(targets: ArrayLike<number>): number[] {
  const lengths: number[] = [];
  for (let i = 0; i < targets.length; i++) {
    if (i > 0 && targets[i - 1] === targets[i]! - 1) lengths[lengths.length - 1]!++;
    else lengths.push(1);
  }
  return lengths;
}

/** Indices of the tokens whose bit is 1. */
export function sampledPlaces(mask: ArrayLike<number>): number[] {
  const places: number[] = [];
  for (let i = 0; i < mask.length; i++) if (mask[i] === 1) places.push(i);
  return places;
}

/** The fault of columns that another program may have written; null if they fit the sampled tokens. */
export function turnProblem({ turn_tokens: tokens, turn_rewards: rewards }: WireTurns, targets: ArrayLike<number>): string | null {
  const sampled = tokens?.reduce((sum, tokensOfTurn) => sum + tokensOfTurn, 0) ?? targets.length;
  if (sampled !== targets.length) return `turn_tokens sum to ${sampled}, and ${targets.length} tokens were sampled`;
  if (rewards === undefined) return null;
  const turns = (tokens ?? stretches(targets)).length;
  if (rewards.length === turns) return null;
  const remedy = tokens === undefined ? '; turn_tokens must say how many tokens each turn has if a turn is not one stretch of sampled tokens' : '';
  return `turn_rewards has ${rewards.length} items for ${turns} turns${remedy}`;
}
