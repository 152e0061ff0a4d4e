import type { Row } from '../core/dataset.ts';
import type { MetricDisplay } from '../core/rubric.ts';
import { roleStatsToWire } from '../models/asked-records.ts';
import { snakeKeys } from '../schemas/key-case.ts';
import type { RoleStats } from '../schemas/role-stats.ts';
import type { RunCost } from '../schemas/run-cost.ts';
import type { Summary } from '../schemas/summary.ts';
import type { WireMetadata } from '../schemas/results.ts';
import { samplingColumns } from '../schemas/sampling-columns.ts';
import type { EvaluationOptions } from './evaluation-options.ts';
import type { RecordedRollout } from './recorded-rollout.ts';
import type { Redaction } from './redaction.ts';
import { policyKind } from './policy-kind.ts';
import { configDigest, runConfig } from './run-config.ts';
import { type CostOptions, runCost } from './run-cost.ts';
import type { RunSpending } from './spending.ts';
import { figures } from './summary.ts';

type Session = WireMetadata['sessions'][number];

export interface RunState {
  /** Every recorded rollout, in the order of the plan. */
  readonly rollouts: readonly RecordedRollout[];
  readonly numExamples: number;
  readonly planned: number;
  readonly startedAt: string;
  /** The last one is the one that runs. */
  readonly sessions: readonly Session[];
  /** What vf-score did to the rollouts of earlier sessions. @default nothing */
  readonly scorings?: WireMetadata['scorings'];
  /** The calls of models by role; empty if no role is played. */
  readonly roles: Readonly<Record<string, RoleStats>>;
  readonly spending: RunSpending;
  /** True if the ceiling of the cost ended the run. */
  readonly limitReached: boolean;
  /** The native tools of all finished rollouts, as on their lines; null if they have none or not the same. */
  readonly tools: WireMetadata['tools'];
}

/** The run's `metadata.json` as it stands. */
export function runMetadata<R extends Row>(options: EvaluationOptions<R>, state: RunState, redaction: Redaction): WireMetadata {
  const { run, client, environment } = options;
  const { maxModelLen, tokenizerHash, logProbsMode } = client.capabilities;
  const config = runConfig(options, redaction);
  const { extra = {}, ...sampling } = options.sampling;
  // Redacted before it becomes text, because a value under a key such as `api_key` is hidden by its key.
  const kind = policyKind(options);
  const samplingArgs = kind === 'none' ? null : samplingColumns({ ...sampling, maxTokens: options.maxTokens, extra: redaction.settings(extra) });
  const now = figures(state.rollouts, {
    planned: state.planned,
    rolloutsPerExample: options.rolloutsPerExample,
    displays: environment.rubric.displays,
  });
  const metadata = redaction.settings({
    ...(run.name === undefined ? {} : { name: run.name }),
    env_id: run.envId,
    env_args: { ...run.envArgs },
    model: run.model,
    base_url: run.baseUrl,
    num_examples: state.numExamples,
    rollouts_per_example: options.rolloutsPerExample,
    shuffle: options.shuffle,
    shuffle_seed: options.shuffleSeed,
    sampling_args: samplingArgs,
    time: wallSeconds(state.sessions),
    ...averages(now),
    usage: kind === 'none' ? null : usageOf(now),
    version_info: { vf_version: run.packageVersion, vf_commit: run.gitCommit ?? null, env_version: run.environmentVersion ?? null, env_commit: null },
    state_columns: [...options.stateColumns],
    tools: null,
    schema_version: 1,
    num_planned: now.rollouts.planned,
    num_finished: now.rollouts.finished,
    num_errored: now.rollouts.errored,
    complete: now.complete,
    seed: options.seed,
    policy: {
      kind,
      name: client.name,
      endpoint: run.endpointName ?? null,
      max_model_len: maxModelLen,
      tokenizer_hash: tokenizerHash,
      logprobs_mode: logProbsMode,
    },
    environment: { ...environment.provenance },
    config,
    config_digest: configDigest(config),
    max_concurrent: options.maxConcurrent,
    max_retries: options.maxRetries,
    started_at: state.startedAt,
    updated_at: new Date().toISOString(),
    sessions: [...state.sessions],
    ...(state.scorings === undefined ? {} : { scorings: [...state.scorings] }),
    ...(Object.keys(state.roles).length === 0 ? {} : { roles: roleStatsToWire(state.roles) }),
    ...(options.cost === undefined ? {} : { cost: costToWire(runCost(state.spending, options.cost, state.limitReached), options.cost) }),
    ...(state.spending.dropped.isNothing ? {} : { dropped: state.spending.dropped.toWire() }),
  } satisfies WireMetadata);
  // Already redacted above and with the lines. A parameter called "token" is not a setting that hides a secret.
  return { ...metadata, sampling_args: samplingArgs, tools: state.tools };
}

function costToWire(cost: RunCost, { policy, roles }: CostOptions): NonNullable<WireMetadata['cost']> {
  const prices = { policy: policy.price, roles: Object.fromEntries(Object.entries(roles).map(([role, { price }]) => [role, price])) };
  return { ...(snakeKeys(cost) as Omit<NonNullable<WireMetadata['cost']>, 'prices'>), prices };
}

export function wallSeconds(sessions: readonly Session[]): number {
  return sessions.reduce((sum, session) => sum + session.seconds, 0);
}

/** Seconds during which a request waited for a rate limit. */
export function waitedSeconds(sessions: readonly Session[]): number {
  return sessions.reduce((sum, { waited_seconds: waited = 0 }) => sum + waited, 0);
}

/** True if the rollouts on file differ from those that the metadata counts: a killed process had recorded more than it had saved. */
export function isBehind(metadata: WireMetadata, rollouts: readonly RecordedRollout[]): boolean {
  const finished = rollouts.filter(({ error }) => error === null).length;
  const { num_finished: finishedBefore, num_errored: erroredBefore, num_planned: planned, complete } = metadata;
  return finished !== finishedBefore || rollouts.length - finished !== erroredBefore || rollouts.length >= planned !== complete;
}

/** The metadata with the figures of the rollouts on file. */
export function withFigures(
  metadata: WireMetadata,
  rollouts: readonly RecordedRollout[],
  displays: ReadonlyMap<string, MetricDisplay>,
): WireMetadata {
  const now = figures(rollouts, { planned: metadata.num_planned, rolloutsPerExample: metadata.rollouts_per_example, displays });
  return {
    ...metadata,
    ...averages(now),
    usage: metadata.usage === null ? null : usageOf(now),
    num_finished: now.rollouts.finished,
    num_errored: now.rollouts.errored,
    complete: now.complete,
  };
}

function usageOf({ tokens: { input, output, cached } }: Pick<Summary, 'tokens'>): WireMetadata['usage'] {
  return { input_tokens: input, output_tokens: output, cached_tokens: cached };
}

export function averages(now: Pick<Summary, 'reward' | 'metrics' | 'rollouts' | 'passAtK' | 'passAllK' | 'passThreshold'>) {
  const values = (estimates: Summary['metrics']) => Object.fromEntries(Object.entries(estimates).map(([name, { value }]) => [name, value]));
  return {
    avg_reward: now.reward?.value ?? null,
    avg_metrics: values(now.metrics),
    avg_error: now.rollouts.recorded === 0 ? null : now.rollouts.errored / now.rollouts.recorded,
    pass_at_k: values(now.passAtK),
    pass_all_k: values(now.passAllK),
    pass_threshold: now.passThreshold,
    avg_reward_policy: 'finished_rollouts' as const,
    avg_reward_ok: now.reward?.value ?? null,
  };
}
