/** Metrics computed from the rollouts of a step or an evaluation alone, by their names in metrics.ts. */
import { estimate } from '../../core/statistics.ts';
import type { FormedGroups } from '../credit/form-groups.ts';
import { RUBRIC_PREFIX, TASK_PREFIX } from './metrics.ts';
import type { Trajectory } from '../sources/trajectory.ts';

type Values = Record<string, number | null>;

export function batchValues(trajectories: readonly Trajectory[], formed: FormedGroups, version: number): Values {
  const finished = trajectories.filter(({ reward }) => reward !== null);
  const rewards = finished.map(({ reward }) => reward!);
  const sequences = formed.groups.flat();
  const trained = sequences.filter(({ targets, advantage }) => targets.length > 0 && advantage !== 0);
  const tokens = sum(trained.map(({ targets }) => targets.length));
  const versions = finished.map(({ policy }) => policy.version);
  const perToken = (value: (advantage: number) => number) =>
    tokens === 0 ? null : sum(trained.map(({ targets, advantage }) => targets.length * value(advantage))) / tokens;
  return {
    ...rolloutValues(trajectories),
    reward_mean: mean(rewards),
    reward_std: deviation(rewards),
    reward_min: least(rewards),
    reward_max: most(rewards),
    group_reward_std: formed.meanStd,
    advantage_mean: perToken((advantage) => advantage),
    advantage_abs_mean: perToken(Math.abs),
    sampled_version: least(versions),
    staleness: versions.length === 0 ? null : version - least(versions)!,
    groups: new Set(trajectories.map(({ groupId }) => groupId)).size - formed.tooSmall,
    groups_constant: formed.constant,
    groups_too_small: formed.tooSmall,
    groups_trained: formed.groups.filter((group) => group.some(({ advantage, targets }) => advantage !== 0 && targets.length > 0)).length,
    sampled_tokens: sum(finished.map(({ targets }) => targets.length)),
    sequence_length_max: most(trained.map(({ trajectory }) => trajectory.ids.length)),
    environment_tokens: environmentShare(trained.map(({ trajectory }) => trajectory)),
    failed: trajectories.length === 0 ? null : 1 - finished.length / trajectories.length,
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
  const finished = trajectories.filter(({ reward }) => reward !== null);
  const names = new Set(finished.flatMap(({ metrics }) => Object.keys(metrics)));
  const rubric = [...names].map((name) => [`${RUBRIC_PREFIX}${name}`, mean(finished.flatMap(({ metrics }) => metrics[name] ?? []))]);
  return {
    rollouts: finished.length,
    rollouts_failed: trajectories.length - finished.length,
    tokens_per_rollout: mean(finished.map(({ targets }) => targets.length)),
    turns_mean: mean(finished.map(({ turns }) => turns)),
    truncated: mean(finished.map(({ isTruncated }) => Number(isTruncated))),
    ...(Object.fromEntries([...rubric, ...taskRewards(trajectories)]) as Values),
  };
}

/** In the order in which the batch has the tasks; null where all rollouts of a task failed. */
function taskRewards(trajectories: readonly Trajectory[]): [name: string, value: number | null][] {
  const byTask = Map.groupBy(
    trajectories.filter(({ task }) => task !== null),
    ({ task }) => task!,
  );
  return [...byTask].map(([task, rollouts]) => [`${TASK_PREFIX}${task}`, mean(rollouts.flatMap(({ reward }) => reward ?? []))]);
}

/** Mean of −log π over sampled tokens. */
function entropyEstimate(trajectories: readonly Trajectory[]): number | null {
  const tokens = sum(trajectories.map(({ logProbs }) => logProbs.length));
  return tokens === 0 ? null : -sum(trajectories.map(({ logProbs }) => logProbs.reduce((total, logProb) => total + logProb, 0))) / tokens;
}

function environmentShare(trajectories: readonly Trajectory[]): number | null {
  const after = sum(trajectories.map(({ ids, promptLength }) => ids.length - promptLength));
  return after === 0 ? null : 1 - sum(trajectories.map(({ targets }) => targets.length)) / after;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : sum(values) / values.length;
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
