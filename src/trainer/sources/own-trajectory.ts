import { isObject } from '../../schemas/is-object.ts';
import { isLogProb, isTokenId } from '../../schemas/log-prob-range.ts';
import { turnsOf } from '../credit/rollout-turns.ts';
import type { TextSegment } from '../../core/rubric.ts';
import type { Trajectory } from '../trajectory.ts';

/**
 * Describes what no sampler of the trained model gives, in a trajectory that `play` did not bring, as `--rollouts` refuses it in a line of a file; null if there is nothing.
 * @param vocabularySize null if it is unknown
 */
export function ownProblem(trajectory: Trajectory, vocabularySize: number | null): string | null {
  const { rolloutId, ids, targets, logProbs, weights, versions, promptLength, policy } = trajectory;
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
  if (version !== undefined) return `a version of ${rolloutId} is ${JSON.stringify(version)}; it must be a whole number of at least 0`;
  return textProblem(trajectory) ?? turnProblem(trajectory);
}

const KINDS: readonly unknown[] = ['model', 'prefill', 'observation', 'corrective'] satisfies TextSegment['kind'][];

/** Texts go to files, to judges and to the credit. */
function textProblem({ rolloutId, segments }: Trajectory): string | null {
  if (!Array.isArray(segments)) return `segments of ${rolloutId} must be a list of { kind, text }, got ${JSON.stringify(segments)}`;
  const wrong = segments.findIndex((each) => !isObject(each) || !KINDS.includes(each['kind']) || typeof each['text'] !== 'string');
  return wrong < 0
    ? null
    : `segments[${wrong}] of ${rolloutId} must be { kind, text }, with a text and a kind of ${KINDS.join(', ')}; got ${JSON.stringify(segments[wrong])}`;
}

/** As the reward of a turn that an environment's step returns: a finite number or nothing, one for each turn. */
function turnProblem(trajectory: Trajectory): string | null {
  const { rolloutId, turnTokens, turnRewards } = trajectory;
  if (turnTokens !== undefined && !(Array.isArray(turnTokens) && turnTokens.every((each) => Number.isInteger(each) && each >= 0)))
    return `turnTokens of ${rolloutId} must be a list of whole numbers of at least 0, got ${JSON.stringify(turnTokens)}`;
  if (turnRewards === undefined) return null;
  const turns = turnsOf({ ...trajectory, turnRewards: [] }).length;
  if (!Array.isArray(turnRewards) || turnRewards.length !== turns)
    return `turnRewards of ${rolloutId} must be a list with one item for each of its ${turns} turns, got ${JSON.stringify(turnRewards)}`;
  const wrong = turnRewards.findIndex((each) => each !== null && !Number.isFinite(each));
  return wrong < 0 ? null : `turnRewards[${wrong}] of ${rolloutId} is ${turnRewards[wrong]}; a reward of a turn is a finite number, or null`;
}
