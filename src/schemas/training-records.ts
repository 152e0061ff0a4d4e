/** Schemas of a training run's files: `run.json`, `rollouts/step-*.jsonl`, `checkpoint.json`, `metrics.jsonl`, `events.jsonl`. docs/training-run.md describes every field. */
import { type Static, type TSchema, Type } from 'typebox';

const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Count = Type.Integer({ minimum: 0 });
const NumberByName = Type.Record(Type.String(), Type.Number());

/** One line of `rollouts/step-000012.jsonl`: a finished or failed rollout. Names are those of `results.jsonl`. */
export const TrajectorySchema = Type.Object({
  rollout_id: Type.String(),
  group_id: Type.String(),
  rollout_index: Count,
  /** The row's task, in a group of environments. */
  task: Type.Optional(Type.String()),
  /** Null for a rollout that failed. */
  reward: Nullable(Type.Number()),
  metrics: NumberByName,
  error: Nullable(Type.Object({ type: Type.String(), message: Type.String(), retryable: Type.Boolean(), source: Type.String() })),
  stop_condition: Type.String(),
  is_truncated: Type.Boolean(),
  is_cut: Type.Boolean(),
  policy_version: Count,
  model: Type.String(),
  num_turns: Count,
  token_usage: Type.Object({ input_tokens: Count, output_tokens: Count, cached_tokens: Nullable(Count) }),
  segments: Type.Array(Type.Object({ kind: Type.String(), text: Type.String() })),
  prompt_length: Count,
  /** The arrays as base64 of little-endian bytes: int32 [T], int32 [M], float64 [M], int32 [M]. */
  ids: Type.String(),
  targets: Type.String(),
  log_probs: Type.String(),
  versions: Type.Optional(Type.String()),
});
export type WireTrajectory = Static<typeof TrajectorySchema>;

/** The line that closes a step: its rollouts are complete, so training on them may start. */
export const ClosingSchema = Type.Object({
  complete: Type.Literal(true),
  step: Count,
  /** How often the step's rollouts were sampled. */
  attempts: Type.Integer({ minimum: 1 }),
  /** Number of distinct rollouts in the file. */
  rollouts: Count,
});
export type WireClosing = Static<typeof ClosingSchema>;

/** A rollout or closing line; only the field that counting needs. A closing line has no id. */
export const StepLineSchema = Type.Object({ rollout_id: Type.Optional(Type.String()) });

/** `checkpoint.json`. */
export const CheckpointSchema = Type.Object({
  schema_version: Type.Literal(1),
  step: Count,
  version: Count,
  model: Type.String(),
  counters: NumberByName,
  /** Every other file of the checkpoint, by its relative path with forward slashes. */
  files: Type.Array(Type.Object({ path: Type.String(), bytes: Count, sha256: Type.String() })),
  /** SHA-256 of this record as compact JSON without this field. */
  sha256: Type.String(),
});
export type WireCheckpoint = Static<typeof CheckpointSchema>;

/** `run.json`. */
export const TrainingRunSchema = Type.Object({
  schema_version: Type.Literal(1),
  run_id: Type.String(),
  /** ISO 8601, like all times here. */
  started_at: Type.String(),
  finished_at: Nullable(Type.String()),
  /** SHA-256 of the configuration. */
  config_digest: Type.String(),
  /** One per process that worked on the run, oldest first. */
  attempts: Type.Array(Type.Object({ id: Type.String(), started_at: Type.String(), package_version: Type.String(), node_version: Type.String() })),
});
export type WireTrainingRun = Static<typeof TrainingRunSchema>;

/** One line of `metrics.jsonl`; every further key is a metric: a number, or null if it was not measured. */
export const MetricsLineSchema = Type.Object(
  { kind: Type.Union([Type.Literal('step'), Type.Literal('evaluation')]), step: Count, time: Type.String() },
  { additionalProperties: Nullable(Type.Number()) },
);
export type WireMetricsLine = Static<typeof MetricsLineSchema>;

/** One line of `events.jsonl`. */
export const EventLineSchema = Type.Object({ kind: Type.String(), step: Count, time: Type.String(), message: Type.String() });
export type WireEventLine = Static<typeof EventLineSchema>;
