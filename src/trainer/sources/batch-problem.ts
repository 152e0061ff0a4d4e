/** Finds mistakes in the batch of an environment's or a user's source that would otherwise train on the wrong tokens, or compare the wrong rollouts, without an error. */
import { isObject } from '../../schemas/is-object.ts';
import { SOURCE_PREFIX } from '../records/metrics.ts';
import { isSourceFileName } from '../records/source-files.ts';
import { branchProblem } from '../trajectory-branches.ts';
import { isDemonstration, type Trajectory } from '../trajectory.ts';
import type { TrajectoryBatch } from '../trajectory-source.ts';

/**
 * Describes the first fault of what `take` returned; null if there is none.
 * @param giver the function that gives trajectories as they must be
 */
export function batchProblem(batch: TrajectoryBatch, giver = 'play'): string | null {
  if (!isObject(batch)) return 'it must be { trajectories }';
  const { trajectories, discarded = [], attempts = 0, values = {} } = batch;
  for (const [name, list] of Object.entries({ trajectories, discarded })) {
    if (!Array.isArray(list)) return `${name} must be a list of trajectories, as ${giver} returns them`;
    const wrong = list.findIndex((each) => trajectoryProblem(each) !== null);
    if (wrong >= 0) return `${name}[${wrong}] is not a trajectory as ${giver} returns it: ${trajectoryProblem(list[wrong])}`;
    const unscored = list.find(({ reward }) => reward !== null && !Number.isFinite(reward));
    if (unscored !== undefined)
      return `the reward of ${unscored.rolloutId} must be a finite number, or null for a failed rollout; got ${typeof unscored.reward === 'number' ? unscored.reward : JSON.stringify(unscored.reward)}`;
    // A demonstration has no log-probs; a rollout without a reward is not one.
    const unpaid = list.find((each) => isDemonstration(each) && each.logProbs !== null);
    if (unpaid !== undefined)
      return `the reward of ${unpaid.rolloutId} is null, although the rollout did not fail; keep the reward that ${giver} gave it, or give it another one with withReward(trajectory, reward)`;
  }
  const owed = trajectories.find(({ isUnpaid }) => isUnpaid === true);
  if (owed !== undefined)
    return `${owed.rolloutId} has no reward yet; give it one with withReward(trajectory, reward), or return it among discarded instead`;
  const twice = repeated([...trajectories, ...discarded]);
  if (twice !== undefined) return `it has the trajectory ${twice.rolloutId} twice`;
  // A copy with another reward or group has the same tokens.
  const trained = new Set(trajectories.map(({ ids }) => ids));
  const both = discarded.find(({ ids }) => trained.has(ids));
  if (both !== undefined) return `it has ${both.rolloutId} among trajectories and again among discarded`;
  if (!isObject(values)) return `values must be an object of metrics, got ${JSON.stringify(values)}`;
  if (!Number.isInteger(attempts) || attempts < 0) return `attempts must be a whole number, got ${JSON.stringify(attempts)}`;
  for (const [name, value] of Object.entries(values)) {
    // Another name would replace what the run measured itself.
    if (!name.startsWith(SOURCE_PREFIX)) return `the value "${name}" must be called "${SOURCE_PREFIX}${name}"`;
    if (value !== null && !Number.isFinite(value))
      return `the value "${name}" must be a finite number, or null if it was not measured; got ${typeof value === 'number' ? value : JSON.stringify(value)}`;
  }
  return textProblem(batch);
}

/** Describes a fault in the notes and rows for people to read; null if there is none. */
function textProblem({ notes = [], records = {} }: TrajectoryBatch): string | null {
  if (!Array.isArray(notes) || notes.some((note) => typeof note !== 'string')) return 'notes must be a list of strings';
  if (!isObject(records)) return 'records must be an object of lists of rows, such as { programs: [{ code }] }';
  for (const [name, rows] of Object.entries(records)) {
    if (!isSourceFileName(name)) return `the name ${JSON.stringify(name)} in records is that of a file; use letters, digits and dashes`;
    if (!Array.isArray(rows)) return `records.${name} must be a list of rows`;
    const wrong = rows.findIndex((row) => !isObject(row) || 'step' in row);
    if (wrong >= 0) return `records.${name}[${wrong}] must be an object without a key "step", which the run adds`;
  }
  return null;
}

function repeated<T>(items: readonly T[]): T | undefined {
  const seen = new Set<T>();
  return items.find((item) => seen.has(item) || !seen.add(item));
}

function trajectoryProblem(each: Trajectory): string | null {
  if (!isObject(each)) return `got ${JSON.stringify(each)}`;
  const { ids, targets, logProbs, weights, versions } = each;
  const nameless = (['rolloutId', 'groupId', 'role'] as const).find((name) => typeof each[name] !== 'string');
  if (nameless !== undefined) return `${nameless} must be a string, got ${JSON.stringify(each[nameless])}`;
  if (!Number.isInteger(each.index)) return `index must be a whole number, got ${JSON.stringify(each.index)}`;
  if (!(ids instanceof Int32Array) || !(targets instanceof Int32Array)) return 'ids and targets must be an Int32Array each';
  const outside = targets.findIndex((target, i) => target < 1 || target >= ids.length || (i > 0 && target <= targets[i - 1]!));
  if (outside >= 0)
    return `targets must be ascending positions from 1 to ${ids.length - 1}, the last of its ids; targets[${outside}] is ${targets[outside]}`;
  for (const [name, values] of Object.entries({ logProbs, weights, versions })) {
    if (values === null || values === undefined || values.length === targets.length) continue;
    return `${name} must have one value for each of its ${targets.length} targets, got ${values.length}`;
  }
  const turns = each.turnTokens?.reduce((sum, tokens) => sum + tokens, 0) ?? targets.length;
  if (turns !== targets.length) return `turnTokens must sum to its ${targets.length} targets, got ${turns}`;
  return branchProblem(each);
}
