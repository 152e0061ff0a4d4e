/** Rewards of single branches, which an agent's environment may give once the rollout has its own. */
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { RewardError, thrownText } from '../core/errors.ts';
import { returnedText } from '../core/returned-text.ts';
import { type Rollout, rolloutError } from './rollout.ts';

/** The rollout with the rewards of its branches; if one fails, with that error in place of every reward. */
export function withBranchRewards<R extends Row>(rollout: Rollout<R>, { branchReward }: Pick<Environment<R>, 'branchReward'>): Rollout<R> {
  if (branchReward === undefined || rollout.reward === null) return rollout;
  try {
    const branches = rollout.branches.map((branch, index) => {
      const { parent, role = null, prompt, segments } = branch;
      const reward = branchReward({ row: rollout.row, state: rollout.state, index, parent, role, prompt, segments });
      if (reward === null) return branch;
      if (!Number.isFinite(reward))
        throw new RewardError(
          `branchReward gave branch ${index} the reward ${returnedText(reward)}. It must be a finite number, or null to leave it to the rollout's.`,
          { isOfCode: true },
        );
      return { ...branch, reward: reward + 0 };
    });
    return { ...rollout, branches };
  } catch (error) {
    const known =
      error instanceof RewardError ? error : new RewardError(`branchReward failed: ${thrownText(error)}`, { cause: error, isOfCode: true });
    return { ...rollout, error: rolloutError(known, 'scoring'), stop: 'has_error', reward: null, metrics: {}, scoredWith: 0 };
  }
}
