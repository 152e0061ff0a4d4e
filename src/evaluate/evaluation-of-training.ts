/** An evaluation of a training run as a run of vf-eval, so that it can be scored again. Prompts, questions and answers come from the environment; states and timings are not on file. */
import { writeFile } from 'node:fs/promises';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import { completionMessages, wireMessage } from '../rollouts/message-columns.ts';
import { roleAndTask } from '../rollouts/rollout-columns.ts';
import type { TextSegment } from '../core/rubric.ts';
import { metadataText, resultEncoder, type WireMetadata, type WireResult } from '../schemas/results.ts';
import { samplingColumns } from '../schemas/sampling-columns.ts';
import type { WireTrajectory } from '../schemas/training-records.ts';
import { recordedRollout } from './recorded-rollout.ts';
import { configDigest } from './run-config.ts';
import { runFiles } from './run-files.ts';
import { averages } from './run-metadata.ts';
import { figures } from './summary.ts';
import { ownColumns, ownOfColumns } from '../rollouts/branch-columns.ts';
import { unpackInt32 } from '../schemas/packed-array.ts';
import type { TrainingEvaluation } from './training-evaluation.ts';

export interface EvaluationRun {
  readonly metadata: WireMetadata;
  /** Writes the files of the run into a folder. */
  write(directory: string): Promise<void>;
}

/** Throws ConfigError for a row that the environment does not have. */
export function evaluationRun<R extends Row>(
  evaluation: TrainingEvaluation,
  environment: Environment<R>,
  { packageVersion }: { readonly packageVersion: string },
): EvaluationRun {
  const rows = new Map([...environment.eval].map((row) => [String(row.exampleId), row]));
  const results = [...evaluation.rollouts.values()].map((trajectory) => {
    const row = rows.get(trajectory.group_id);
    if (row !== undefined) return resultOf(trajectory, row, { environment, seed: evaluation.seed });
    throw new ConfigError(
      `${evaluation.path} has a row "${trajectory.group_id}" that the environment does not have now. Score it with the data of the run.`,
    );
  });
  const names = environment.rubric.names;
  const metadata = metadataOf(evaluation, results, { environment, packageVersion });
  return {
    metadata,
    async write(directory) {
      const encode = resultEncoder(names);
      await writeFile(runFiles(directory).results, results.map((result) => `${encode(result)}\n`).join(''));
      await writeFile(runFiles(directory).metadata, `${metadataText(metadata)}\n`);
    },
  };
}

interface Known<R extends Row> {
  readonly environment: Environment<R>;
  readonly seed: number;
}

function resultOf<R extends Row>(trajectory: WireTrajectory, row: R, { environment, seed }: Known<R>): WireResult {
  const { rollout_id, group_id, rollout_index, reward, stop_condition, is_truncated, is_cut, model, policy_version, num_turns } = trajectory;
  const { error, metrics, segments, token_usage: usage } = trajectory;
  const nothing = { start: 0, end: 0, duration: 0 };
  const written = segments.map(({ kind, text }): TextSegment => ({ kind: kind as TextSegment['kind'], text }));
  const completion =
    environment.turnFormat === 'continuation' ? [{ role: 'assistant', content: written.map(({ text }) => text).join('') }] : undefined;
  const columns = {
    example_id: row.exampleId,
    prompt: row.prompt.map(wireMessage),
    completion: completion ?? completionMessages({ segments: written, turnFormat: environment.turnFormat, branches: [] }),
    ...(row.answer === undefined ? {} : { answer: row.answer }),
    ...(row.info === undefined ? {} : { info: row.info as Record<string, unknown> }),
    reward,
    error: error && { ...errorColumns(error), retryable: error.retryable, ...(error.reason === undefined ? {} : { reason: error.reason }) },
    timing: { start_time: 0, setup: nothing, generation: nothing, scoring: nothing, model: { duration: 0 }, env: { duration: 0 }, total: 0 },
    is_completed: error === null,
    is_truncated,
    stop_condition,
    metrics,
    token_usage: { ...usage, final_input_tokens: trajectory.prompt_length, final_output_tokens: usage.output_tokens },
    error_chain: error?.type ?? null,
    long_error_chain: error?.message ?? null,
    rollout_id,
    group_id,
    rollout_index,
    is_cut,
    model,
    policy_version,
    num_turns,
    seed,
    segments,
    ...roleAndTask(trajectory),
    attempts: 1,
    cut_observations: 0,
    turn_format: environment.turnFormat,
    scored_with: error === null ? 1 : 0,
    generations: [],
    ...branchesOf(trajectory),
  };
  const further = Object.entries(metrics).filter(([name]) => !(name in columns));
  return { ...columns, ...Object.fromEntries(further) };
}

/** What the file knows of them: where each left another, and its texts. None if it is not known which texts are whose. */
function branchesOf({ branches = [], segments, targets, thinned }: WireTrajectory): Pick<WireResult, 'branches'> {
  if (branches.reduce((sum, branch) => sum + (branch.segments ?? NaN), 0) !== segments.length || branches.length === 0) return {};
  const sampled = unpackInt32(targets) ?? [];
  let end = 0;
  const columns = branches.map((branch, i) => {
    const { length, parent, fork = null, segments: own } = branch;
    const start = end;
    end += length;
    return {
      parent,
      fork,
      segments: own!,
      generations: 0,
      tokens: thinned === true ? null : length,
      sampled_tokens: thinned === true ? null : sampled.filter((at) => at >= start && at < start + length).length,
      ...ownColumns(ownOfColumns(branch)),
      ...(i === 0 ? {} : { begins_with: null, prompt: [] }),
    };
  });
  return { branches: columns };
}

function errorColumns({ type, message, phase = 'unknown' }: NonNullable<WireTrajectory['error']>) {
  return { error: type, message, error_chain_repr: type, error_chain_str: message, phase };
}

interface About<R extends Row> {
  readonly environment: Environment<R>;
  readonly packageVersion: string;
}

function metadataOf<R extends Row>(
  evaluation: TrainingEvaluation,
  results: readonly WireResult[],
  { environment, packageVersion }: About<R>,
): WireMetadata {
  const { run, step, envId, envArgs, model, seed, temperature, maxTokens } = evaluation;
  const groups = Map.groupBy(results, ({ group_id: id }) => id);
  const rolloutsPerExample = Math.max(1, ...[...groups.values()].map((group) => group.length).slice(0, 1000));
  const now = figures(results.map(recordedRollout), { planned: results.length, rolloutsPerExample, displays: environment.rubric.displays });
  const config = { env_id: envId, env_args: envArgs, model, seed, rollouts_per_example: rolloutsPerExample, training: { run, step } };
  const at = new Date().toISOString();
  return {
    env_id: envId,
    env_args: { ...envArgs },
    model,
    base_url: null,
    num_examples: groups.size,
    rollouts_per_example: rolloutsPerExample,
    shuffle: false,
    shuffle_seed: seed,
    sampling_args: samplingColumns({ temperature, topP: 1, maxTokens }),
    time: 0,
    ...averages(now),
    usage: { input_tokens: now.tokens.input, output_tokens: now.tokens.output, cached_tokens: now.tokens.cached },
    version_info: { vf_version: packageVersion, vf_commit: null, env_version: null, env_commit: null },
    state_columns: [],
    tools: null,
    schema_version: 1,
    num_planned: results.length,
    num_finished: now.rollouts.finished,
    num_errored: now.rollouts.errored,
    complete: true,
    seed,
    // Tokens stay in the training run, so the copy is read like a chat run.
    policy: { kind: 'chat', name: model, endpoint: null, max_model_len: null, tokenizer_hash: null, logprobs_mode: 'none' },
    environment: { ...environment.provenance },
    config,
    config_digest: configDigest(config),
    max_concurrent: 1,
    max_retries: 0,
    started_at: at,
    updated_at: at,
    sessions: [],
  };
}
