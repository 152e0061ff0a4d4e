/** The body of `evaluate`: its options as a request, its callbacks as the surroundings of a session. */
import { packageVersion } from '../data/package-root.ts';
import { checkOptions, type OptionKinds } from '../core/check-options.ts';
import { assertLanguageModel, isLanguageModel } from '../clients/language-model.ts';
import type { PolicyClient } from '../clients/policy-client.ts';
import type { Row } from '../core/dataset.ts';
import type { Environment } from '../core/environment.ts';
import type { Model } from '../core/model.ts';
import { ConfigError } from '../core/errors.ts';
import { readRecords } from '../evaluate/run-records.ts';
import { type RecordedRollout, recordedRollout } from '../evaluate/recorded-rollout.ts';
import { runFiles } from '../evaluate/run-files.ts';
import { assertEnvironment } from '../registry/load-environment.ts';
import { isObject } from '../schemas/is-object.ts';
import { ResultSchema } from '../schemas/results.ts';
import type { RoleTable } from '../schemas/roles-config.ts';
import type { EvaluationRequest } from '../sessions/evaluation/evaluation-request.ts';
import { loadEnvironmentFile } from '../sessions/environment/environment-file.ts';
import { type EvaluationContext, evaluationNotices, type OpenedEvaluation, openEvaluation } from '../sessions/evaluation/open-evaluation.ts';
import { evaluationTransport } from '../sessions/evaluation/evaluation-transport.ts';
import { playEvaluation } from '../sessions/evaluation/play-evaluation.ts';
import { roleTableOf } from '../sessions/roles/role-flag.ts';
import { PROPERTY_NAMES } from '../sessions/setting-names.ts';
import { redactSecrets, redactUrl } from '../transport/redact.ts';
import { withTransport } from '../transport/transport-settings.ts';
import { policySpecOf } from './open-policy.ts';
import { Callbacks } from './callbacks.ts';
import type { Evaluated, EvaluateOptions, RoleSpec } from './evaluate.ts';

const OPTIONS: OptionKinds<EvaluateOptions> = {
  environment: 'any',
  name: 'text',
  args: 'table',
  environmentsDir: 'text',
  policy: 'any',
  roles: 'table',
  rows: 'number',
  rolloutsPerRow: 'number',
  maxTokens: 'any',
  temperature: 'any',
  topP: 'any',
  sampling: 'table',
  overrideSampling: 'flag',
  strictStops: 'flag',
  seed: 'number',
  shuffle: 'flag',
  shuffleSeed: 'number',
  maxConcurrent: 'number',
  maxScoring: 'number',
  timeoutMs: 'any',
  scoringTimeoutMs: 'any',
  maxRetries: 'number',
  maxWaitMs: 'amount',
  maxCostUsd: 'amount',
  independentScoring: 'flag',
  stateColumns: 'texts',
  output: 'text',
  resume: 'textOrFlag',
  allowChanges: 'flag',
  signal: 'signal',
  variables: 'table',
  onEvent: 'function',
  onNotice: 'function',
};

const ROLE_KEYS = {
  use: 'use',
  baseUrl: 'base_url',
  model: 'model',
  apiKeyVar: 'api_key_var',
  sampling: 'sampling',
  reasoningEffort: 'reasoning_effort',
  maxTokens: 'max_tokens',
  maxConcurrent: 'max_concurrent',
  maxRetries: 'max_retries',
  budgetCalls: 'budget_calls',
  budgetTokens: 'budget_tokens',
  cache: 'cache',
  stream: 'stream',
} as const satisfies Partial<Record<keyof RoleSpec, keyof RoleTable>>;

/** The reader of role tables checks the others. */
const ROLE: OptionKinds<RoleSpec> = {
  use: 'text',
  baseUrl: 'textOrTexts',
  model: 'text',
  apiKeyVar: 'text',
  sampling: 'table',
  reasoningEffort: 'text',
  maxTokens: 'number',
  maxConcurrent: 'number',
  timeoutMs: 'number',
  totalTimeoutMs: 'number',
  maxRetries: 'number',
  budgetCalls: 'number',
  budgetTokens: 'number',
  cache: 'text',
  stream: 'any',
};

export async function runEvaluateOptions<R extends Row>(options: EvaluateOptions<R>): Promise<Evaluated> {
  checkOptions('evaluate', options, OPTIONS);
  const callbacks = new Callbacks(options);
  return callbacks.through(() => evaluated(callbacks.options));
}

async function evaluated<R extends Row>(options: EvaluateOptions<R> & { readonly signal: AbortSignal }): Promise<Evaluated> {
  const { environment, signal, variables: given, onEvent, onNotice, policy, roles = {}, ...request } = options;
  const isClient = (player: typeof policy): player is PolicyClient => isObject(player) && 'lease' in player;
  const client = isClient(policy) ? policy : null;
  const spec = policy === undefined || isClient(policy) ? null : policySpecOf(policy);
  const variables: NodeJS.ProcessEnv = { ...(given ?? process.env) };
  loadEnvironmentFile('.env', variables);
  const secrets = new Set<string>();
  const say = (line: string) => onNotice?.(redactSecrets(redactUrl(line), [...secrets]));
  const { models, specs } = await rolesOf(roles, say);
  const context: EvaluationContext = {
    variables,
    secrets,
    signal,
    warn: say,
    names: PROPERTY_NAMES,
    packageVersion: packageVersion(),
    ...(typeof environment === 'string' ? {} : { loaded: loadedEnvironment(environment, options) }),
    ...(client === null ? {} : { client }),
    models,
  };
  const asked: EvaluationRequest = {
    ...request,
    environment: typeof environment === 'string' ? environment : environment.id,
    ...(spec === null ? {} : { policy: spec }),
    roles: specs,
  };
  const summary = await withTransport(evaluationTransport(asked, context), async () => {
    await using opened = await openEvaluation(asked, context);
    const onStarted = (started: OpenedEvaluation) => evaluationNotices(started).forEach(say);
    return (await playEvaluation(opened, context, { onStarted, ...(onEvent === undefined ? {} : { onEvent }) })).summary;
  });
  return { summary, rollouts: await rolloutsIn(summary.directory), directory: summary.directory };
}

function loadedEnvironment(environment: unknown, { args, environmentsDir }: Pick<EvaluateOptions, 'args' | 'environmentsDir'>): Environment {
  if (typeof environment !== 'object' || environment === null)
    throw new ConfigError("evaluate needs an environment: give its name, its path or a loaded one, such as environment: 'search-r1'.");
  assertEnvironment('evaluate', environment);
  const loaded = environment as Environment;
  if (args !== undefined || environmentsDir !== undefined)
    throw new ConfigError('evaluate takes arguments for an environment that it loads, and this one is loaded. Leave args and environmentsDir out.');
  if (loaded.images !== undefined)
    throw new ConfigError(`evaluate keeps the images of an environment that it loads itself. Give ${loaded.id} by its name or path.`);
  return loaded;
}

/** The caller's own models, and the tables of the others. */
async function rolesOf(roles: NonNullable<EvaluateOptions['roles']>, say: (line: string) => void) {
  const models: Record<string, Model> = {};
  const specs: Record<string, RoleTable> = {};
  for (const [role, player] of Object.entries(roles)) {
    if (isLanguageModel(player)) {
      const { modelFromLanguageModel } = await import('../registry/model-from-language-model.ts');
      assertLanguageModel(player, `The role ${role}`);
      models[role] = modelFromLanguageModel(player, { maxRetries: 0, onRemark: (remark) => say(`Role ${role}: ${remark}`) });
    } else if (isModel(player)) models[role] = player;
    else specs[role] = tableOf(role, player);
  }
  return { models, specs };
}

function isModel(player: RoleSpec | Model | string): player is Model {
  return isObject(player) && 'generate' in player;
}

function tableOf(role: string, spec: RoleSpec | string): RoleTable {
  if (typeof spec === 'string') return roleTableOf(spec);
  const { model, languageModel = model } = spec as { readonly model?: unknown; readonly languageModel?: unknown };
  if (isLanguageModel(languageModel))
    throw new ConfigError(
      `The role ${role} takes a model of the AI SDK by itself. Give ${role}: model, or for limits and retries of its own ${role}: modelFromLanguageModel(model, { maxConcurrentRequests, maxRetries }) of vf-search/environment-kit. It has no cache and no price here.`,
    );
  checkOptions(`The role ${role}`, spec, ROLE);
  const named = Object.entries(ROLE_KEYS).flatMap(([key, name]) => {
    const value = spec[key as keyof typeof ROLE_KEYS];
    return value === undefined ? [] : [[name, value] as const];
  });
  const { timeoutMs, totalTimeoutMs } = spec;
  return {
    ...Object.fromEntries(named),
    ...(timeoutMs === undefined ? {} : { timeout_s: timeoutMs / 1000 }),
    ...(totalTimeoutMs === undefined ? {} : { total_timeout_s: totalTimeoutMs / 1000 }),
  };
}

/** In the order of rows; of two records of a rollout, the later one. */
async function rolloutsIn(directory: string): Promise<readonly RecordedRollout[]> {
  const rollouts = new Map<string, RecordedRollout>();
  await readRecords(runFiles(directory).results, ResultSchema, (result) => {
    const rollout = recordedRollout(result);
    rollouts.set(rollout.rolloutId, rollout);
  });
  return [...rollouts.values()];
}
