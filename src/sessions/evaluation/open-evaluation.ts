/** Opens the parts of one evaluation from its request: fills in defaults, loads the environment, opens its policy and the models of its roles, and finds their prices. */
import type { PolicyClient } from '../../clients/policy-client.ts';
import { throwIfAborted } from '../../core/abort.ts';
import { Disposers } from '../../core/disposers.ts';
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import type { Models } from '../../core/model.ts';
import type { CostOptions } from '../../evaluate/run-cost.ts';
import { plural, countText } from '../../reports/text/number-text.ts';
import { leftOutTasks } from '../../reports/evaluation/left-out-tasks.ts';
import { assertPlayable } from '../../rollouts/assert-playable.ts';
import type { RoleTables } from '../../schemas/roles-config.ts';
import { isRunName, RUN_NAME_TITLE } from '../../schemas/run-name.ts';
import { addressNotice, engineThreads } from '../engine/address-notice.ts';
import { givenEnvironment, type OpenedEnvironment, openEnvironment } from '../environment/open-environment.ts';
import { embeddedModel } from '../policy/embedded-model.ts';
import { laptopModelOf, searchedIn, worldOf } from '../policy/laptop-model.ts';
import { type OpenedPolicy, openPolicy } from '../policy/open-policy.ts';
import { namedPolicy, type NamedPolicy, playedBy, refusalOf } from '../policy/played-by.ts';
import type { PolicyTarget } from '../policy/policy-target.ts';
import { EMBEDDED } from '../policy/providers.ts';
import { runPrices } from '../policy/run-prices.ts';
import { overTable, type ReadSampling, readSampling, samplingFor } from '../policy/sampling.ts';
import { secretsOf } from '../policy/secrets.ts';
import { type OpenedRoles, openRoles, rolePolicyOf } from '../roles/open-roles.ts';
import { resolveRoles } from '../roles/resolve-roles.ts';
import type { SettingNames } from '../setting-names.ts';
import type { Surroundings } from '../surroundings.ts';
import { EVALUATION_DEFAULTS, type EvaluationRequest } from './evaluation-request.ts';

/** The parts of an evaluation that its caller gives in addition to the request. */
export interface EvaluationContext extends Surroundings {
  readonly names: SettingNames;
  /** Version of this package, for the record. */
  readonly packageVersion: string;
  /** An environment that is already loaded, and that the evaluation leaves open. @default the one that the request names */
  readonly loaded?: Environment;
  /** A policy of the caller's own, which the evaluation leaves open. @default the one that the request names */
  readonly client?: PolicyClient;
  /** Models of the caller's own, by role. @default those that the request names */
  readonly models?: Models;
  /** For a dry run: a model that is not on this machine is not downloaded, and cannot play. @default false */
  readonly isDry?: boolean;
  /** Chooses the role tables once the environment's roles are known. @default those of the request */
  readonly rolesFor?: (declared: readonly string[]) => Promise<RoleTables>;
}

/** All parts of an evaluation; disposing closes them. */
export interface OpenedEvaluation extends AsyncDisposable {
  readonly request: EvaluationRequest;
  readonly environmentArgs: Readonly<Record<string, unknown>>;
  readonly opened: OpenedEnvironment;
  readonly target: PolicyTarget;
  readonly policy: OpenedPolicy;
  readonly roles: OpenedRoles;
  /** Null if no model costs anything. */
  readonly cost: CostOptions | null;
  readonly sampling: ReadSampling;
  readonly counts: EvaluationCounts;
  readonly secrets: readonly string[];
  /** Notices of the parts, for the user before the run. */
  readonly notices: readonly string[];
  /** The model of the environment's own preset `laptop`, if a model in this process plays; else null. */
  readonly laptopModel: string | null;
}

interface EvaluationCounts {
  /** Number of rows that are played. */
  readonly rows: number;
  /** Number of requested rows that the data set lacks. */
  readonly missing: number;
  readonly rolloutsPerRow: number;
  readonly seed: number;
  readonly shuffleSeed: number;
}

/** Throws ConfigError for a request that cannot run, PolicyError or ModelError for a server that does not answer, CancelledError. */
export async function openEvaluation(given: EvaluationRequest, context: EvaluationContext): Promise<OpenedEvaluation> {
  const { names, variables, signal, warn } = context;
  throwIfAborted(signal, 'Stopped before the run began');
  if (given.name !== undefined && !isRunName(given.name))
    throw new ConfigError(`${names.name('name')} must be ${RUN_NAME_TITLE}, got ${JSON.stringify(given.name)}`);
  const isResumed = (given.resume ?? false) !== false;
  if (given.allowChanges === true && !isResumed)
    throw new ConfigError(`${names.name('allowChanges')} needs ${names.name('resume')}: it allows changes to a run that is resumed`);
  await using parts = new Disposers();
  const { request, named } = await namedIn(given, context);
  const sampling = readSampling(named.target.kind === 'endpoint' ? overTable(request, named.target.request) : request, names);
  const world = await worldFor(request, named.target, context);
  const environmentArgs = { ...world?.args, ...request.args };
  const servers = named.target.kind === 'endpoint' ? [named.target] : [];
  const secrets = new Set(secretsOf({ servers, settings: [environmentArgs, sampling.sampling.extra ?? {}] }));
  for (const secret of secrets) context.secrets.add(secret);
  const { loaded } = context;
  const loading =
    loaded === undefined
      ? openEnvironment(request.environment, environmentArgs, { ...searchedIn(request), variables, signal, note: warn })
      : Promise.resolve(givenEnvironment(loaded));
  const opened = parts.use(await loading.catch((error: unknown) => Promise.reject((signal.aborted ? null : refusalOf(named, request)) ?? error)));
  const { environment } = opened;
  const target = playedBy(environment, named, request, names);
  const declared = await resolvedRoles(environment, request, context, target);
  for (const secret of secretsOf({ roles: declared })) {
    secrets.add(secret);
    context.secrets.add(secret);
  }
  const counts = countsOf(request, opened);
  const addresses = target.kind === 'embedded' ? addressNotice(engineThreads({})) : null;
  if (addresses !== null) warn(addresses);
  const { maxRetries = EVALUATION_DEFAULTS.maxRetries, maxConcurrent = EVALUATION_DEFAULTS.maxConcurrent, strictStops = false } = request;
  const policy = parts.use(
    await openPolicy(target, {
      environment,
      sampling: sampling.sampling,
      seed: counts.seed,
      maxRetries,
      maxConcurrent,
      strictStops,
      names,
      variables,
      signal,
    }),
  );
  assertPlayable(environment, policy.client);
  const roles = parts.use(
    await openRoles(declared, { policy: rolePolicyOf(policy), images: environment.images, onNotice: warn, secrets, names, strictStops, signal }),
  );
  opened.bindModels(roles.models.models);
  const prices = { limit: request.maxCostUsd ?? null, endpointsPath: request.policy?.endpointsPath ?? null, names };
  const cost = await runPrices({ ...prices, target, policy, environment, roles: declared, players: roles.players });
  const laptopModel = target.kind === 'embedded' ? await laptopModelOf(request.environment, searchedIn(request)) : null;
  const disposer = parts.move();
  return {
    request,
    environmentArgs,
    opened,
    target,
    policy,
    roles,
    cost,
    sampling: samplingFor(sampling, policy.client.capabilities, names),
    counts,
    secrets: [...secrets],
    notices: [...(world === null ? [] : [world.notice]), ...policy.notices, ...roles.notices],
    laptopModel,
    [Symbol.asyncDispose]: () => disposer.disposeAsync(),
  };
}

/** The policy of a request whose model in this process, if it has one, is a folder of this machine. */
async function namedIn(given: EvaluationRequest, context: EvaluationContext): Promise<{ request: EvaluationRequest; named: NamedPolicy }> {
  const { client, isDry = false, variables } = context;
  if (client !== undefined) return { request: given, named: { target: { kind: 'client', client }, problem: null } };
  const { policy = {} } = given;
  if (policy.provider !== EMBEDDED || policy.model === undefined) return { request: given, named: await namedPolicy(given, context) };
  // Its modules are loaded only for a model in this process.
  const { localModel, modelHere } = await import('../policy/local-model.ts');
  const { path, toDownload } = isDry ? await modelHere(policy.model, variables) : { path: await localModel(policy.model, context), toDownload: null };
  if (path === null) return { request: given, named: { target: { kind: 'absent', model: policy.model, toDownload }, problem: null } };
  const request = { ...given, policy: { ...policy, model: path } };
  return { request, named: await namedPolicy(request, context) };
}

/** All notices for the user before the first rollout. */
export function evaluationNotices({ request, notices, opened, counts }: OpenedEvaluation): readonly string[] {
  const { environment } = opened;
  const { rows: count, shuffleSeed, missing } = counts;
  const leftOut = leftOutTasks({ rows: environment.eval, count, shuffleSeed: request.shuffle === true ? shuffleSeed : null });
  const few = `${request.environment} has only ${plural(environment.eval.length, 'row')}, ${countText(missing)} fewer than requested; each is played once`;
  return [...(environment.notices ?? []), ...notices, ...(leftOut === null ? [] : [leftOut]), ...(missing === 0 ? [] : [few])];
}

/** The world of the model in this process, if it knows only the environment's small world. */
async function worldFor(request: EvaluationRequest, target: PolicyTarget, context: EvaluationContext) {
  if (target.kind !== 'embedded' || context.loaded !== undefined) return null;
  const found = { environmentId: request.environment, args: request.args ?? {}, ...searchedIn(request) };
  return worldOf(embeddedModel(target.model, context).directory, { ...found, choose: context.names.given({ args: '{"dataset": ...}' }) });
}

/** Resolved before the policy is opened, which may take minutes. */
async function resolvedRoles(environment: Environment, request: EvaluationRequest, context: EvaluationContext, target: PolicyTarget) {
  const { rolesFor, models = {}, variables, names } = context;
  const own = environment.roles ?? {};
  const given = Object.entries(own).filter(([role]) => Object.hasOwn(models, role));
  const declarations = {
    ...own,
    ...Object.fromEntries(given.map(([role, declared]) => [role, { ...declared, default: 'builtin' as const, builtin: models[role]! }])),
  };
  const chosen = rolesFor === undefined ? (request.roles ?? {}) : await rolesFor(Object.keys(declarations));
  // So that a role that the environment does not have is refused here too.
  const tables = { ...chosen, ...Object.fromEntries(Object.keys(models).map((role) => [role, {}])) };
  const policyServer = target.kind === 'endpoint' ? target : null;
  return resolveRoles(declarations, tables, { endpointsPath: request.policy?.endpointsPath ?? null, variables, names, policyServer });
}

/** The sizes that the caller sets, else those of the environment's package.json, else our defaults. */
function countsOf(request: EvaluationRequest, { environment, defaults }: OpenedEnvironment): EvaluationCounts {
  const available = environment.eval.length;
  if (available === 0) throw new ConfigError(`${environment.eval.name} has no rows to evaluate`);
  const asked = request.rows ?? defaults.numExamples ?? EVALUATION_DEFAULTS.rows;
  const wanted = asked === -1 ? available : asked;
  const { seed = EVALUATION_DEFAULTS.seed } = request;
  return {
    // Another value is refused when the run begins.
    rows: Number.isSafeInteger(wanted) ? Math.min(wanted, available) : wanted,
    // Only a number that the user gave deserves a notice.
    missing: request.rows === undefined ? 0 : Math.max(0, wanted - available),
    rolloutsPerRow: request.rolloutsPerRow ?? defaults.rolloutsPerExample ?? EVALUATION_DEFAULTS.rolloutsPerRow,
    seed,
    shuffleSeed: request.shuffleSeed ?? seed,
  };
}
