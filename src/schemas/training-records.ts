/** Schemas of a training run's files: `run.json`, `rollouts/step-*.jsonl`, `checkpoint.json`, `metrics.jsonl`, `events.jsonl`. docs/training-run.md describes every field. */
import type { XStatic } from 'typebox/schema';
import {
  atLeastOne,
  byName,
  choice,
  count,
  flag,
  json,
  listOf,
  nullable,
  number,
  numberOrNull,
  object,
  only,
  pathInside,
  text,
  textOrNull,
} from './json-schema.ts';
import { branchPlace, fork, optionalColumns, optionalTokenColumns, ownOfBranch, recordColumns, usage } from './rollout-columns.ts';
import { turnColumns } from './turn-columns.ts';

/** A sequence of a rollout that has several: its part of `ids`, after those of the branches before it. */
const BranchSchema = object(
  {
    /** Its ids; 0 once they were left out. */
    length: count,
    /** Its ids before its first own turn. */
    prompt_length: count,
    parent: branchPlace.parent,
  },
  {
    fork,
    /** Its part of the rollout's segments; absent if they are texts that an agent gave. */
    segments: count,
    ...ownOfBranch,
  },
);
export type WireTrajectoryBranch = XStatic<typeof BranchSchema>;

/** One line of `rollouts/step-000012.jsonl`: a finished or failed rollout. Names are those of `results.jsonl`. */
export const TrajectorySchema = object(
  {
    ...recordColumns,
    metrics: byName(number),
    error: nullable(object({ type: text, message: text, retryable: flag, source: text }, { reason: text, phase: text })),
    token_usage: object(usage),
    prompt_length: count,
    /** The arrays as base64 of little-endian bytes: int32 [T], int32 [M], float64 [M], int32 [M]. */
    ids: text,
    targets: text,
  },
  {
    ...optionalColumns,
    /** Only for a rollout that gets its reward when others have played: it has neither a reward nor an error. */
    unpaid: only(true),
    /** Absent if the sampler's log-probs are unknown. */
    log_probs: text,
    versions: text,
    ...turnColumns,
    /** Its tokens were left out to save space: `ids` and `targets` are empty. */
    thinned: only(true),
    ...optionalTokenColumns,
    /** The sequences of a rollout that has several. */
    branches: listOf(BranchSchema),
  },
);
export type WireTrajectory = XStatic<typeof TrajectorySchema>;

/** The line that closes a step: its rollouts are complete, so training on them may start. */
export const ClosingSchema = object(
  {
    complete: only(true),
    step: count,
    /** Number of times that the step's rollouts were sampled. */
    attempts: atLeastOne,
    /** Number of distinct rollouts in the file. */
    rollouts: count,
  },
  {
    /** With `max_staleness` of 2 or more: the version that the step trained, from which the age of its groups follows. */
    version: count,
  },
);
export type WireClosing = XStatic<typeof ClosingSchema>;

/** One line of `rollouts/step-000012.<phase>_rewards.jsonl`: the reward of a rollout whose line is `unpaid`, with all of its metrics. */
export const PaidRewardSchema = object({ rollout_id: text, group_id: text, rollout_index: count, reward: number, metrics: byName(number) });
export type WirePaidReward = XStatic<typeof PaidRewardSchema>;

/** One line of `rollouts/step-000012_advantages.jsonl`: the mean advantage of the trained tokens of a rollout, and of each turn if turns have different ones. */
const AdvantageSchema = object(
  { rollout_id: text, group_id: text, rollout_index: count, advantage: number },
  { /** Null for a turn without a trained token. [turns] */ turn_advantages: listOf(numberOrNull) },
);
export type WireAdvantage = XStatic<typeof AdvantageSchema>;

/** Separates two attempts at a step: the lines before it are not used. */
export const RestartSchema = object({ restarted: only(true), step: count });
export type WireRestart = XStatic<typeof RestartSchema>;

/** A rollout or closing line, with only the field that counting needs. A closing line has no id. */
export const StepLineSchema = object({}, { rollout_id: text });

/** `checkpoint.json`. */
export const CheckpointSchema = object({
  schema_version: only(2),
  step: count,
  version: count,
  model: text,
  counters: byName(number),
  /** Every other file of the checkpoint, by its relative path with forward slashes. */
  files: listOf(object({ path: pathInside, bytes: count, sha256: text })),
  /** SHA-256 of this record as compact JSON without this field. */
  sha256: text,
});
export type WireCheckpoint = XStatic<typeof CheckpointSchema>;

/** `run.json`. */
export const TrainingRunSchema = object(
  {
    schema_version: only(2),
    run_id: text,
    /** ISO 8601, like all times here. */
    started_at: text,
    finished_at: textOrNull,
    /** SHA-256 of the configuration. */
    config_digest: text,
    /** One per process that worked on the run, oldest first. */
    attempts: listOf(object({ id: text, started_at: text, package_version: text, node_version: text })),
  },
  {
    /** The run's name for people; absent in runs of earlier versions, whose `config.toml` has it. */
    name: text,
    /** The table of config.toml as vf-search wrote it last, which tells an edit. Absent in runs of earlier versions. */
    settings: json,
    /** SHA-256 of the files that a setting names, by setting and file; of rollouts with the number of bytes before it. Absent in runs of earlier versions. */
    inputs: byName(byName(text)),
  },
);
export type WireTrainingRun = XStatic<typeof TrainingRunSchema>;

/** One line of `metrics.jsonl`; every further key is a metric: a number, or null if it was not measured. */
export const MetricsLineSchema = {
  ...object({ kind: choice('step', 'evaluation', 'validation'), step: count, time: text }),
  additionalProperties: numberOrNull,
} as const;
export type WireMetricsLine = XStatic<typeof MetricsLineSchema>;

/** One line of `service-tokens.jsonl`: tokens since the line before, of all processes. */
export const ServiceTokensSchema = object({ prefill: count, sample: count, train: count });

/** One line of `events.jsonl`. `reason`: of a `step_skipped`, its kind. `changes`: of settings and of files that they name, from the step after this one on. */
export const EventLineSchema = object(
  { kind: text, step: count, time: text, message: text },
  { reason: text, changes: listOf(object({ key: text }, { before: {}, after: {} })) },
);
export type WireEventLine = XStatic<typeof EventLineSchema>;
