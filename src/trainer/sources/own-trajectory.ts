import { isLogProb, isTokenId } from '../../schemas/log-prob-range.ts';
import type { Trajectory } from '../trajectory.ts';

/**
 * Describes what no sampler of the trained model gives, in a trajectory that `play` did not bring, as `--rollouts` refuses it in a line of a file; null if there is nothing.
 * @param vocabularySize null if it is unknown
 */
export function ownProblem(
  { rolloutId, ids, targets, logProbs, weights, versions, promptLength, policy }: Trajectory,
  vocabularySize: number | null,
): string | null {
  const size = vocabularySize ?? Infinity;
  const foreign = ids.findIndex((id) => !isTokenId(id) || id >= size);
  if (foreign >= 0)
    return `ids[${foreign}] of ${rolloutId} is ${ids[foreign]}, but the token ids of the trained model ${vocabularySize === null ? 'begin at 0' : `are 0 to ${size - 1}`}`;
  if (!Number.isInteger(promptLength) || promptLength < 0 || promptLength > (targets[0] ?? ids.length))
    return `promptLength of ${rolloutId} is ${JSON.stringify(promptLength)}; it is the number of its ids before the first that the policy may have sampled, and its first target is ${targets[0]}`;
  const unlikely = logProbs?.findIndex((value) => !isLogProb(value)) ?? -1;
  if (unlikely >= 0) return `logProbs[${unlikely}] of ${rolloutId} is ${logProbs![unlikely]}; a log-prob is a finite number of at most 0`;
  const weightless = weights?.findIndex((value) => !Number.isFinite(value) || value === 0) ?? -1;
  if (weightless >= 0) return `weights[${weightless}] of ${rolloutId} is ${weights![weightless]}; a weight is a finite number other than 0`;
  const version = [policy.version, ...(versions ?? [])].find((each) => !Number.isInteger(each) || each < 0);
  return version === undefined ? null : `a version of ${rolloutId} is ${JSON.stringify(version)}; it must be a whole number of at least 0`;
}
