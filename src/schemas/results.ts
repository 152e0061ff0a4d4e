/**
 * Schemas of an evaluation's files: `results.jsonl` and `metadata.json` in the format of verifiers v0 with further columns, and `tokens.jsonl` for
 * policies that return token ids. docs/results.md describes every field.
 */
import { type Static, type TSchema, Type } from 'typebox';
import { RoleStatsSchema } from './asked-line.ts';
import { schemaCheck } from './schema-check.ts';

const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()]);
const Count = Type.Integer({ minimum: 0 });
const NumberByName = Type.Record(Type.String(), Nullable(Type.Number()));
const Json = Type.Record(Type.String(), Type.Unknown());

const WireMessageSchema = Type.Object({
  role: Type.String(),
  content: Type.String(),
  tool_calls: Type.Optional(Type.Array(Type.Object({ id: Type.String(), name: Type.String(), arguments: Type.String() }))),
  tool_call_id: Type.Optional(Type.String()),
  /** Where the content is more than text; `content` then holds its text alone. */
  parts: Type.Optional(
    Type.Array(
      Type.Union([
        Type.Object({ type: Type.Literal('text'), text: Type.String() }),
        Type.Object({ type: Type.Literal('image'), sha256: Type.String(), media_type: Type.String(), width: Type.Number(), height: Type.Number() }),
      ]),
    ),
  ),
});
export type WireMessage = Static<typeof WireMessageSchema>;

const SpanSchema = Type.Object({ start: Type.Number(), end: Type.Number(), duration: Type.Number() });

const Tools = Type.Array(Type.Object({ name: Type.String(), description: Type.String(), parameters: Json }));

/** One line of `results.jsonl`. The schema is open because metrics also appear as separate columns, as do state columns. */
export const ResultSchema = Type.Object({
  example_id: Type.Union([Type.String(), Type.Number()]),
  prompt: Type.Array(WireMessageSchema),
  completion: Type.Array(WireMessageSchema),
  answer: Type.Optional(Type.String()),
  info: Type.Optional(Json),
  /** Null for a rollout that failed. */
  reward: Nullable(Type.Number()),
  error: Nullable(
    Type.Object({
      error: Type.String(),
      message: Type.String(),
      error_chain_repr: Type.String(),
      error_chain_str: Type.String(),
      phase: Type.String(),
      retryable: Type.Boolean(),
    }),
  ),
  timing: Type.Object({
    start_time: Type.Number(),
    setup: SpanSchema,
    generation: SpanSchema,
    scoring: SpanSchema,
    model: Type.Object({ duration: Type.Number() }),
    env: Type.Object({ duration: Type.Number() }),
    total: Type.Number(),
  }),
  is_completed: Type.Boolean(),
  is_truncated: Type.Boolean(),
  stop_condition: Type.String(),
  metrics: NumberByName,
  token_usage: Type.Object({
    input_tokens: Count,
    output_tokens: Count,
    cached_tokens: Nullable(Count),
    final_input_tokens: Count,
    final_output_tokens: Count,
  }),
  error_chain: Nullable(Type.String()),
  long_error_chain: Nullable(Type.String()),
  rollout_id: Type.String(),
  group_id: Type.String(),
  rollout_index: Count,
  attempts: Type.Integer({ minimum: 1 }),
  seed: Type.Number(),
  model: Type.String(),
  policy_version: Count,
  num_turns: Count,
  is_cut: Type.Boolean(),
  cut_observations: Count,
  /** Absent in runs of earlier versions, as are the next two. */
  turn_format: Type.Optional(Type.Union([Type.Literal('continuation'), Type.Literal('chat')])),
  /** How many rollouts of the group were scored together with this one; 0 where it was not scored. */
  scored_with: Type.Optional(Count),
  /** The row's task, in a group of environments. */
  task: Type.Optional(Type.String()),
  /** Tools that it was offered natively. */
  tools: Type.Optional(Tools),
  /** Why the episode's clean-up failed; the rollout counts all the same. */
  clean_up_error: Type.Optional(Type.String()),
  segments: Type.Array(Type.Object({ kind: Type.String(), text: Type.String() })),
  generations: Type.Array(
    Type.Object({
      finish: Type.Union([Type.Literal('stop'), Type.Literal('length')]),
      stop_reason: Nullable(Type.Union([Type.String(), Type.Number()])),
      input_tokens: Count,
      output_tokens: Count,
      cached_tokens: Nullable(Count),
      max_new_tokens: Nullable(Count),
      kept_tokens: Nullable(Count),
      overhang: Type.String(),
    }),
  ),
});
export type WireResult = Static<typeof ResultSchema>;

/** One line of `tokens.jsonl`: a finished rollout of a token policy. The arrays are parallel. */
export const TokensSchema = Type.Object({
  rollout_id: Type.String(),
  token_ids: Type.Array(Count),
  loss_mask: Type.Array(Type.Union([Type.Literal(0), Type.Literal(1)])),
  logprobs: Type.Array(Nullable(Type.Number())),
  prompt_length: Count,
  segments: Type.Array(Type.Object({ kind: Type.String(), start: Count, end: Count, version: Nullable(Count) })),
});
export type WireTokens = Static<typeof TokensSchema>;

/** `metadata.json`. */
export const MetadataSchema = Type.Object({
  env_id: Type.String(),
  env_args: Json,
  model: Type.String(),
  base_url: Nullable(Type.String()),
  num_examples: Count,
  rollouts_per_example: Type.Integer({ minimum: 1 }),
  shuffle: Type.Boolean(),
  shuffle_seed: Type.Number(),
  sampling_args: Json,
  /** Wall-clock seconds over all sessions. */
  time: Type.Number(),
  avg_reward: Nullable(Type.Number()),
  avg_metrics: NumberByName,
  /** Share of the recorded rollouts that failed. */
  avg_error: Nullable(Type.Number()),
  pass_at_k: Type.Record(Type.String(), Type.Number()),
  pass_all_k: Type.Record(Type.String(), Type.Number()),
  pass_threshold: Type.Number(),
  usage: Type.Object({ input_tokens: Count, output_tokens: Count, cached_tokens: Nullable(Count) }),
  version_info: Type.Object({
    vf_version: Type.String(),
    vf_commit: Nullable(Type.String()),
    env_version: Nullable(Type.String()),
    env_commit: Nullable(Type.String()),
  }),
  state_columns: Type.Array(Type.String()),
  tools: Nullable(Tools),
  schema_version: Type.Literal(1),
  avg_reward_policy: Type.Literal('finished_rollouts'),
  avg_reward_ok: Nullable(Type.Number()),
  num_planned: Count,
  num_finished: Count,
  num_errored: Count,
  complete: Type.Boolean(),
  seed: Type.Number(),
  policy: Type.Object({
    kind: Type.Union([Type.Literal('tokens'), Type.Literal('chat')]),
    name: Type.String(),
    endpoint: Nullable(Type.String()),
    max_model_len: Nullable(Type.Number()),
    tokenizer_hash: Nullable(Type.String()),
    logprobs_mode: Type.Union([Type.Literal('raw'), Type.Literal('processed'), Type.Literal('unknown'), Type.Literal('none')]),
  }),
  /** The environment's description of itself: data set, corpus, revisions, presets. */
  environment: Json,
  /** The settings that must not change in a resume, and their SHA-256. */
  config: Json,
  config_digest: Type.String(),
  max_concurrent: Count,
  max_retries: Count,
  started_at: Type.String(),
  /** When the last session ended or last saved its progress. */
  updated_at: Type.String(),
  sessions: Type.Array(
    Type.Object({
      started_at: Type.String(),
      seconds: Type.Number(),
      /** Recorded rollouts that it kept, and rollouts that it added. */
      kept: Count,
      recorded: Count,
      package_version: Type.String(),
      node_version: Type.String(),
      base_url: Nullable(Type.String()),
    }),
  ),
  /** What models beside the policy cost and how long they took, by role; absent where none was asked. */
  roles: Type.Optional(Type.Record(Type.String(), RoleStatsSchema)),
});
export type WireMetadata = Static<typeof MetadataSchema>;

/** Parses JSON text as a value of the schema, or returns what is wrong with it. */
export function parseWire<T extends TSchema>(schema: T, text: string): { readonly value: Static<T> } | { readonly problem: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: text === '' ? 'an empty line' : 'text that is not JSON' };
  }
  const check = schemaCheck<Static<T>>(schema);
  if (check(value)) return { value };
  const version = versionProblem(schema, value);
  if (version !== null) return { problem: version };
  const { instancePath, message } = check.errors![0]!;
  return { problem: `${instancePath.slice(1).replaceAll('/', '.') || 'a value that'} ${message}` };
}

/** What is wrong with a record of another version, whose other fields say nothing then; null for one of this version. */
function versionProblem(schema: TSchema, value: unknown): string | null {
  const { const: readable } = ((schema as { properties?: Record<string, { const?: unknown }> }).properties ?? {})['schema_version'] ?? {};
  const found = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)['schema_version'] : undefined;
  if (readable === undefined || found === undefined || found === readable) return null;
  return `schema_version ${JSON.stringify(found)}, this version of vf-search reads ${JSON.stringify(readable)}: use the version that wrote it`;
}
