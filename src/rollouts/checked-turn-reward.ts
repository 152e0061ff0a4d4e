import { RewardError } from '../core/errors.ts';
import { returnedText } from '../core/returned-text.ts';

/** What the environment's step said that a turn was worth. Throws RewardError if it is not a finite number, because a failure is never a reward of 0. @param turn its number, from 1 */
export function checkedTurnReward(reward: number, turn: number): number {
  if (Number.isFinite(reward)) return reward + 0;
  throw new RewardError(`The environment's step gave turn ${turn} the reward ${returnedText(reward)}. It must be a finite number, or left out.`, {
    isOfCode: true,
  });
}
