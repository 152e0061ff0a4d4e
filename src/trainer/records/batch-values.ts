/** Metrics computed from the rollouts of a step or an evaluation alone, by their names in metrics.ts. */
import { estimate } from '../../core/statistics.ts';
import type { CreditedBatch, TrainingSequence } from '../credit.ts';
import { RUBRIC_PREFIX, STOP_PREFIX, TASK_PREFIX } from './metrics.ts';
import { sequencesOf, tokenParts } from '../trajectory-branches.ts';
import { isDemonstration, isFinished, isUnplayed, POLICY_ROLE, type Trajectory } from '../trajectory.ts';
import type { TrajectoryBatch } from '../trajectory-source.ts';

type Values = Record<string, number | null>;

export function batchValues(batch: TrajectoryBatch, { groups, values }: CreditedBatch, { version }: { readonly version: number }): Values {
  const sequences = groups.flat().filter(({ targets }) => targets.length > 0);
  const demonstrations = sequences.filter((sequence) => sequence.isDemonstration);
  const trained = sequences.filter(({ isDemonstration: isShown, advantages }) => !isShown && advantages.some((advantage) => advantage !== 0));
  const played = countedIn(batch).filter((trajectory) => !isDemonstration(trajectory));
  const lengths = [...trained, ...demonstrations].flatMap(({ trajectory }) => tokenParts(trajectory).map(({ ids }) => ids.length));
  return {
    ...(played.length === 0 ? {} : { ...playedValues(played, trained), ...ageValues(batch.trajectories, version) }),
    ...values,
    ...(played.length === 0 ? {} : { groups_trained: groups.filter((group) => group.some((sequence) => trained.includes(sequence))).length }),
    ...(demonstrations.length === 0
      ? {}
      : { demonstrations: demonstrations.length, demonstration_tokens: sum(demonstrations.map(({ targets }) => targets.length)) }),
    sequence_length_max: most(lengths),
  };
}

/** The trajectories that the figures of a step count, those that are not trained on too. */
export function countedIn({ trajectories, discarded = [], played }: TrajectoryBatch): readonly Trajectory[] {
  return played ?? [...trajectories, ...discarded];
}

/** Ages of the rollouts that are trained on: those dropped for their age do not count. */
function ageValues(trajectories: readonly Trajectory[], version: number): Values {
  const trained = trajectories.filter((each) => each.reward !== null && !isDemonstration(each));
  const versions = trained.map(({ policy }) => policy.version);
  return { sampled_version: least(versions), staleness: versions.length === 0 ? null : version - least(versions)!, ...mixedValues(trained, version) };
}

/** Nothing unless new weights were published during a rollout. */
function mixedValues(trained: readonly Trajectory[], version: number): Values {
  const mixed = trained.filter(({ versions }) => versions !== undefined);
  if (mixed.length === 0) return {};
  const tokens = sum(trained.map(({ targets }) => targets.length));
  const older = trained.flatMap(({ versions, policy, targets }) =>
    versions === undefined ? (policy.version < version ? targets.length : 0) : versions.filter((each) => each < version).length,
  );
  return { rollouts_mixed: mixed.length, tokens_older: sum(older) / tokens };
}

function playedValues(played: readonly Trajectory[], trained: readonly TrainingSequence[]): Values {
  const finished = played.filter(isFinished);
  const rewards = finished.flatMap(({ reward }) => reward ?? []);
  const advantages = trained.map((sequence) => sequence.advantages);
  const tokens = sum(advantages.map(({ length }) => length));
  const perToken = (value: (advantage: number) => number) =>
    tokens === 0 ? null : sum(advantages.map((own) => own.reduce((total, advantage) => total + value(advantage), 0))) / tokens;
  return {
    ...rolloutValues(played),
    reward_mean: mean(rewards),
    reward_std: deviation(rewards),
    reward_min: least(rewards),
    reward_max: most(rewards),
    advantage_mean: perToken((advantage) => advantage),
    advantage_abs_mean: perToken(Math.abs),
    sampled_tokens: sum(finished.map(({ targets }) => targets.length)),
    environment_tokens: environmentShare(trained.map(({ trajectory }) => trajectory)),
    failed: 1 - finished.length / played.length,
    entropy: entropyEstimate(finished),
  };
}

/** Held-out rewards with their confidence interval, clustered by row. */
export function evaluationValues(trajectories: readonly Trajectory[]): Values {
  const byRow = new Map<string, number[]>();
  for (const { groupId, reward } of trajectories) {
    if (reward !== null) byRow.set(groupId, [...(byRow.get(groupId) ?? []), reward]);
  }
  const reward = estimate([...byRow.values()]);
  return { ...rolloutValues(trajectories), reward_mean: reward?.value ?? null, reward_low: reward?.low ?? null, reward_high: reward?.high ?? null };
}

function rolloutValues(trajectories: readonly Trajectory[]): Values {
  const finished = trajectories.filter(isFinished);
  const names = new Set(finished.flatMap(({ metrics }) => Object.keys(metrics)));
  const rubric = [...names].map((name) => [`${RUBRIC_PREFIX}${name}`, mean(finished.flatMap(({ metrics }) => metrics[name] ?? []))]);
  return {
    rollouts: finished.length,
    rollouts_failed: trajectories.length - finished.length,
    rollouts_unplayed: trajectories.filter(isUnplayed).length,
    tokens_per_rollout: mean(finished.map(({ targets }) => targets.length)),
    turns_mean: mean(finished.map(({ turns }) => turns)),
    ...branchValues(finished),
    truncated: mean(finished.map(({ isTruncated }) => Number(isTruncated))),
    ...(Object.fromEntries([...rubric, ...taskRewards(trajectories), ...stopCounts(trajectories)]) as Values),
  };
}

/** Nothing unless a rollout has several branches. */
function branchValues(finished: readonly Trajectory[]): Values {
  const counts = finished.map(({ branches }) => branches?.length ?? 1);
  if (counts.every((count) => count === 1)) return {};
  return { branches_mean: mean(counts), rollouts_branched: mean(counts.map((count) => Number(count > 1))) };
}

function stopCounts(trajectories: readonly Trajectory[]): [name: string, count: number][] {
  return [...Map.groupBy(trajectories, ({ stop }) => stop)].map(([stop, ended]) => [`${STOP_PREFIX}${stop}`, ended.length]);
}

/** By role and task, in the order in which the batch has them; null if all rollouts of one failed. The policy of a run with one role has no name. */
function taskRewards(trajectories: readonly Trajectory[]): [name: string, value: number | null][] {
  const nameOf = ({ role, task }: Trajectory) => [role === POLICY_ROLE ? null : role, task].filter((part) => part !== null).join('/');
  const byName = new Map<string, number[]>();
  for (const rollout of trajectories) {
    // A rollout counts once for a role, as the mean of its branches in that role.
    for (const [name, own] of Map.groupBy(sequencesOf(rollout), nameOf)) {
      const reward = mean(own.flatMap((part) => part.reward ?? []));
      byName.set(name, [...(byName.get(name) ?? []), ...(reward === null ? [] : [reward])]);
    }
  }
  byName.delete('');
  return [...byName].map(([name, rewards]) => [`${TASK_PREFIX}${name}`, mean(rewards)]);
}

/** Mean of −log π over sampled tokens. */
function entropyEstimate(trajectories: readonly Trajectory[]): number | null {
  const known = trajectories.flatMap(({ logProbs }) => (logProbs === null ? [] : [logProbs.filter(Number.isFinite)]));
  const tokens = sum(known.map(({ length }) => length));
  return tokens === 0 ? null : -sum(known.map((logProbs) => logProbs.reduce((total, logProb) => total + logProb, 0))) / tokens;
}

function environmentShare(trajectories: readonly Trajectory[]): number | null {
  const sequences = trajectories.flatMap(sequencesOf);
  const after = sum(sequences.map(({ ids, promptLength }) => ids.length - promptLength));
  return after === 0 ? null : 1 - sum(sequences.map(({ targets }) => targets.length)) / after;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function mean(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  const total = sum(values);
  return Number.isFinite(total) ? total / values.length : sum(values.map((value) => value / values.length));
}

function deviation(values: readonly number[]): number | null {
  const centre = mean(values);
  return centre === null || values.length < 2 ? null : Math.sqrt(sum(values.map((value) => (value - centre) ** 2)) / (values.length - 1));
}

function least(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((smallest, value) => Math.min(smallest, value));
}

function most(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((largest, value) => Math.max(largest, value));
}
