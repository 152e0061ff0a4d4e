/**
 * Schemas of an evaluation's files: `results.jsonl` and `metadata.json` in the format of verifiers v0 with further columns, and `tokens.jsonl` for
 * policies that return token ids. docs/results.md describes every field.
 */
import type { XStatic } from 'typebox/schema';
import { encodeWithFloats } from './float-json.ts';
import { isObject } from './is-object.ts';
import {
  byName,
  choice,
  count,
  countOrNull,
  flag,
  json,
  listOf,
  nullable,
  number,
  numberOrNull,
  object,
  only,
  atLeastOne,
  seed,
  text,
  textOrNull,
  textOrNumber,
} from './json-schema.ts';
import { branchColumns, tools, WireMessageSchema } from './branch-columns.ts';
import { RoleStatsSchema } from './role-stats.ts';
import { branchPlace, finish, logProbsMode, optionalColumns, optionalTokenColumns, recordColumns, tokenColumns, usage } from './rollout-columns.ts';
import { RunCostSchema, SpendingSchema } from './run-cost.ts';
import { recordedSampling } from './sampling-columns.ts';
import { schemaCheck, schemaProblem } from './schema-check.ts';
import { turnColumns } from './turn-columns.ts';

const span = object({ start: number, end: number, duration: number });

/** One line of `results.jsonl`. The schema is open because metrics also appear as separate columns, as do state columns. */
export const ResultSchema = object(
  {
    ...recordColumns,
    example_id: textOrNumber,
    prompt: listOf(WireMessageSchema),
    completion: listOf(WireMessageSchema),
    error: nullable(
      object(
        { error: text, message: text, error_chain_repr: text, error_chain_str: text, phase: text, retryable: flag },
        /** For a model other than the policy: `failed`, `malformed`, `budget` or `not_set_up`. For an agent's program: `exit_code`, `signal`, `no_answer`, `no_call`, `refused`, `repeats`, `deadline`, `output` or `memory`. */
        { reason: text },
      ),
    ),
    timing: object({
      start_time: number,
      setup: span,
      generation: span,
      scoring: span,
      model: object({ duration: number }),
      env: object({ duration: number }),
      total: number,
    }),
    is_completed: flag,
    metrics: byName(numberOrNull),
    token_usage: object({ ...usage, final_input_tokens: count, final_output_tokens: count }),
    error_chain: textOrNull,
    long_error_chain: textOrNull,
    attempts: atLeastOne,
    seed,
    cut_observations: count,
    generations: listOf(
      object(
        {
          ...usage,
          finish,
          stop_reason: { type: ['string', 'number', 'null'] },
          max_new_tokens: countOrNull,
          kept_tokens: countOrNull,
          overhang: text,
        },
        // What the chat template wrote at the beginning of the turn; absent if nothing.
        {
          opening: text,
          /** What the environment said that the turn was worth by itself; absent if it said nothing. */
          reward: number,
        },
      ),
    ),
  },
  {
    ...optionalColumns,
    turn_rewards: turnColumns.turn_rewards,
    answer: text,
    info: json,
    /** May be absent, like the next one. */
    turn_format: choice('continuation', 'chat'),
    /** Number of rollouts of the group that were scored together with this one; 0 if it was not scored. */
    scored_with: count,
    /** Tokens of the attempts before the last, which `token_usage` leaves out; absent if there are none. */
    repeated_usage: object(usage),
    /** Turns for which the server does not say whether a stop string ended them; absent without any. */
    guessed_stops: count,
    /** Turns in which the server went on after a stop string; absent without any. */
    ignored_stops: count,
    /** Tools that it was offered natively. */
    tools,
    /** The sequences that it consists of, if there are several. */
    branches: listOf(branchColumns),
    /** Keys of an agent's requests that changed nothing although the agent may expect it, such as `reasoning.effort`. */
    unhonoured: listOf(text),
    /** Requests of an agent that were the same as an earlier one and got its answer; absent without any. */
    repeats: count,
    /** Requests of an agent that could not be honoured, and what the first of them was told; absent without any. */
    refused: object({ count, first: text }),
    /** The reasons why metrics are null, by name; the rollout counts all the same. */
    metric_errors: byName(text),
    /** The reason why the episode's clean-up failed; the rollout counts all the same. */
    clean_up_error: text,
  },
);
export type WireResult = XStatic<typeof ResultSchema>;

/** Writes lines of `results.jsonl`, in which the metrics' own columns are floats like those of the schema. */
export function resultEncoder(metricNames: readonly string[]): (result: WireResult) => string {
  const metrics = Object.fromEntries(metricNames.map((name) => [name, numberOrNull]));
  return encodeWithFloats({ ...ResultSchema, properties: { ...metrics, ...ResultSchema.properties } });
}

/** One line of `tokens.jsonl`: a finished rollout of a token policy, or a branch of one that has several. The arrays are parallel. */
export const TokensSchema = object({ rollout_id: text, ...tokenColumns }, { ...branchPlace, ...optionalTokenColumns });
export type WireTokens = XStatic<typeof TokensSchema>;

export const tokensLine = encodeWithFloats(TokensSchema);

/** `metadata.json`. */
export const MetadataSchema = object(
  {
    env_id: text,
    env_args: json,
    model: text,
    base_url: textOrNull,
    num_examples: count,
    rollouts_per_example: atLeastOne,
    shuffle: flag,
    shuffle_seed: seed,
    /** Null for a program, which samples by itself. */
    sampling_args: nullable(recordedSampling),
    /** Wall-clock seconds over all sessions. */
    time: number,
    avg_reward: numberOrNull,
    avg_metrics: byName(numberOrNull),
    /** Share of the recorded rollouts that failed. */
    avg_error: numberOrNull,
    pass_at_k: byName(number),
    pass_all_k: byName(number),
    pass_threshold: number,
    /** Null for a program: nothing counts what its own models read and write. */
    usage: nullable(object(usage)),
    version_info: object({
      vf_version: text,
      vf_commit: textOrNull,
      env_version: textOrNull,
      env_commit: textOrNull,
    }),
    state_columns: listOf(text),
    tools: nullable(tools),
    schema_version: only(1),
    avg_reward_policy: only('finished_rollouts'),
    avg_reward_ok: numberOrNull,
    num_planned: count,
    num_finished: count,
    num_errored: count,
    complete: flag,
    seed,
    policy: object({
      /** `none`: a program, which calls its own models. */
      kind: choice('tokens', 'chat', 'none'),
      name: text,
      endpoint: textOrNull,
      max_model_len: countOrNull,
      tokenizer_hash: textOrNull,
      logprobs_mode: logProbsMode,
    }),
    /** The environment's description of itself: data set, corpus, revisions, presets. */
    environment: json,
    /** The settings that must not change in a resume, and their SHA-256. */
    config: json,
    config_digest: text,
    max_concurrent: count,
    max_retries: count,
    started_at: text,
    /** The time at which the last session ended or last saved its progress. */
    updated_at: text,
    sessions: listOf(
      object(
        {
          started_at: text,
          seconds: number,
          /** Number of recorded rollouts that it kept, and of rollouts that it added. */
          kept: count,
          recorded: count,
          package_version: text,
          node_version: text,
          base_url: textOrNull,
        },
        {
          /** Seconds of it during which a request waited for a rate limit; absent if none did. */
          waited_seconds: number,
          /** SHA-256 of the files of an adapter that played (`model`) and of the environment's own module (`env_id`), by file; absent without them. */
          inputs: byName(byName(text)),
        },
      ),
    ),
  },
  {
    /** The run's name for people; absent if it has none. */
    name: text,
    /** Costs and times of the models other than the policy, by role; absent if none was called. */
    roles: byName(RoleStatsSchema),
    /** The times at which vf-score gave rollouts other scores, oldest first; absent if it did not. */
    scorings: listOf(
      object(
        {
          at: text,
          package_version: text,
          /** Number of rollouts that were scored again, and of those whose score or error changed. */
          scored: count,
          changed: count,
          /** How these rewards differ from the environment's own; empty if they do not. */
          settings: json,
        },
        {
          /** SHA-256 of the files that scored, by setting and file, as in `sessions`: of the environment's own module (`env_id`), of files that its arguments name, of a module of `--rubric`. Absent in runs of earlier versions. */
          inputs: byName(byName(text)),
          /** Scores from before stay: only failed rollouts were scored, or weights alone changed. */
          partial: only(true),
        },
      ),
    ),
    /** The cost of its models; absent if they run in this process. */
    cost: RunCostSchema,
    /** Tokens of failed rollouts that resumes dropped to play them again; absent without any. */
    dropped: SpendingSchema,
  },
);
export type WireMetadata = XStatic<typeof MetadataSchema>;

export const metadataText = encodeWithFloats(MetadataSchema, { indent: 2 });

/** Parses JSON text as a value of the schema, or returns a description of its fault. */
export function parseWire<S extends object>(schema: S, line: string | object): { readonly value: XStatic<S> } | { readonly problem: string } {
  let value: unknown;
  try {
    value = typeof line === 'string' ? JSON.parse(line) : line;
  } catch {
    return { problem: line === '' ? 'an empty line' : 'text that is not JSON' };
  }
  const check = schemaCheck(schema);
  if (check(value)) return { value };
  const version = versionProblem(schema, value);
  if (version !== null) return { problem: version };
  return { problem: schemaProblem(check, 'it') };
}

/** The fault of a record of another version, whose other fields cannot be judged; null for a record of this version. */
function versionProblem(schema: object, value: unknown): string | null {
  const { const: readable } = ((schema as { properties?: Record<string, { const?: unknown }> }).properties ?? {})['schema_version'] ?? {};
  const found = isObject(value) ? value['schema_version'] : undefined;
  if (readable === undefined || found === undefined || found === readable) return null;
  return `schema_version ${JSON.stringify(found)}, this version of vf-search reads ${JSON.stringify(readable)}: use the version that wrote it`;
}
