/** Runs one evaluation from its settings to its summary: fills in defaults, opens the parts, plays, reports and closes them. */
import { join } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { evaluate } from '../../evaluate/evaluate.ts';
import type { RunIdentity } from '../../evaluate/evaluation-options.ts';
import type { CostOptions } from '../../evaluate/run-cost.ts';
import { assertPlayable } from '../../rollouts/assert-playable.ts';
import type { Summary } from '../../schemas/summary.ts';
import { addressNotice } from '../address-notice.ts';
import type { CommandContext } from '../command-line.ts';
import { engineThreads } from '../../sessions/engine/engine-threads.ts';
import { countText, plural } from '../../reports/text/number-text.ts';
import { noPaint, paintFor } from '../../reports/text/paint.ts';
import { escapeControls } from '../../reports/text/terminal-text.ts';
import { describeRun, type RunFacts, summaryText } from '../../reports/evaluation/describe-run.ts';
import { dryRunText } from './dry-run.ts';
import { laptopModelOf, searchedIn, worldOf } from '../../sessions/policy/laptop-model.ts';
import { leftOutTasks } from '../../reports/evaluation/left-out-tasks.ts';
import { noteEnding } from './note-ending.ts';
import { type OpenedEnvironment, openEnvironment } from '../../sessions/environment/open-environment.ts';
import { type OpenedRoles, openRoles, rolePolicyOf } from '../../sessions/roles/open-roles.ts';
import { resolveRoles, secretsOfRoles } from '../../sessions/roles/resolve-roles.ts';
import { type OpenedPolicy, openPolicy } from '../../sessions/policy/open-policy.ts';
import { namedPolicy, playedBy, refusalOf } from '../../sessions/policy/played-by.ts';
import type { PolicyTarget } from '../../sessions/policy/policy-target.ts';
import { Progress } from './progress.ts';
import { embeddedModel } from '../../sessions/policy/embedded-model.ts';
import { displayPath } from '../../reports/evaluation/render-summary.ts';
import { recordedRun } from '../../sessions/evaluation/recorded-run.ts';
import { runDirectory } from '../../sessions/evaluation/run-directory.ts';
import { runPrices } from '../../sessions/policy/run-prices.ts';
import { type ReadSampling, readSampling, tokenSampling } from '../../sessions/policy/sampling.ts';
import { secretsOf } from '../../sessions/policy/secrets.ts';
import type { Settings } from './settings.ts';
import type { SharedRoles } from '../../sessions/roles/shared-roles.ts';
import type { PlannedRun } from './toml-config.ts';

export interface RunSurroundings {
  readonly context: CommandContext;
  readonly packageVersion: string;
  /** Chooses which roles of a file apply to the run. */
  readonly sharedRoles: SharedRoles;
  /** The arguments of the command, without -R. */
  readonly words: readonly string[];
}

export interface EvaluationOutcome {
  readonly summary: Summary;
  /** The rendered summary. */
  readonly text: string;
  readonly facts: RunFacts;
}

/** All parts of a run, open. */
export interface PreparedRun {
  readonly planned: PlannedRun;
  /** Notices for the user before the run. */
  readonly notices: readonly string[];
  readonly environmentArgs: Readonly<Record<string, unknown>>;
  readonly opened: OpenedEnvironment;
  readonly policy: OpenedPolicy;
  readonly roles: OpenedRoles;
  /** Null where no model costs anything. */
  readonly cost: CostOptions | null;
  readonly sampling: ReadSampling;
  readonly counts: Counts;
  readonly secrets: readonly string[];
  /** The model of the environment's own preset `laptop`, where a model in this process plays; else null. */
  readonly laptopModel: string | null;
}

interface Counts {
  /** Number of rows that are played. */
  readonly rows: number;
  /** Number of requested rows that the data set lacks. */
  readonly missing: number;
  readonly rolloutsPerExample: number;
  readonly seed: number;
  readonly shuffleSeed: number;
}

const DEFAULTS = {
  numExamples: 5,
  rolloutsPerExample: 1,
  maxConcurrent: 32,
  maxRetries: 3,
  seed: 0,
  environmentsDir: 'environments',
};

/** Null for a dry run, which only prints what would run. */
export async function runEvaluation(planned: PlannedRun, surroundings: RunSurroundings): Promise<EvaluationOutcome | null> {
  const { settings } = planned;
  const { context } = surroundings;
  const sampling = readSampling(settings);
  const named = await namedPolicy(planned.envId, settings);
  const givenArgs = { ...settings['env-args'], ...settings['extra-env-kwargs'] };
  const found = { environmentId: planned.envId, args: givenArgs, ...searchedIn(settings) };
  const world = named.target.kind === 'embedded' ? await worldOf(embeddedModel(named.target.model).directory, found) : null;
  const environmentArgs = { ...world?.args, ...givenArgs };
  const secrets = new Set(secretsOf(named.target, environmentArgs, sampling.sampling.extra ?? {}));
  for (const secret of secrets) context.secrets.add(secret);
  await using opened = await openEnvironment(planned.envId, environmentArgs, {
    environmentsDir: settings['env-dir-path'] ?? DEFAULTS.environmentsDir,
    variables: process.env,
    signal: context.signal,
    note: (line) => context.note(`vf-eval: ${line}`),
  }).catch((error: unknown) => {
    throw (context.signal.aborted ? null : refusalOf(named, settings)) ?? error;
  });
  const target = playedBy(opened.environment, named, settings);
  // Before the policy is opened, which may take minutes.
  const declarations = opened.environment.roles ?? {};
  const declared = await resolveRoles(declarations, await surroundings.sharedRoles.tablesOf(planned, Object.keys(declarations)), {
    endpointsPath: settings['endpoints-path'] ?? null,
    variables: process.env,
  });
  for (const secret of secretsOfRoles(declared)) {
    secrets.add(secret);
    context.secrets.add(secret);
  }
  const counts = countsOf(settings, opened);
  const addresses = target.kind === 'embedded' ? addressNotice(engineThreads({})) : null;
  if (addresses !== null) context.note(`vf-eval: ${addresses}`);
  await using policy = await openPolicy(target, {
    environment: opened.environment,
    seed: counts.seed,
    maxRetries: settings['max-retries'] ?? DEFAULTS.maxRetries,
    maxConcurrent: settings['max-concurrent'] ?? DEFAULTS.maxConcurrent,
    signal: context.signal,
  });
  assertPlayable(opened.environment, policy.client);
  await using roles = await openRoles(declared, {
    policy: rolePolicyOf(policy),
    images: opened.environment.images,
    onNotice: (line) => context.note(`vf-eval: ${line}`),
    secrets,
    signal: context.signal,
  });
  opened.bindModels(roles.models.models);
  const cost = await runPrices({ settings, target, policy, environment: opened.environment, roles: declared, players: roles.players });
  const prepared: PreparedRun = {
    planned,
    notices: [...(world === null ? [] : [world.notice]), ...policy.notices, ...roles.notices],
    environmentArgs,
    opened,
    policy,
    roles,
    cost,
    sampling: policy.client.capabilities.kind === 'tokens' ? tokenSampling(sampling) : sampling,
    counts,
    secrets: [...secrets],
    laptopModel: target.kind === 'embedded' ? await laptopModelOf(planned.envId, searchedIn(settings)) : null,
  };
  // Awaited here, so that `using` closes nothing before the last rollout.
  if (!settings['dry-run']) return await play(prepared, target, surroundings);
  announce(prepared, context);
  process.stdout.write(context.redact(await dryRunText(prepared, context.signal)));
  return null;
}

/** Names of the roles that the run's environment has. */
export async function rolesOf({ envId, settings }: PlannedRun, signal: AbortSignal): Promise<readonly string[]> {
  const environmentsDir = settings['env-dir-path'] ?? DEFAULTS.environmentsDir;
  const args = { ...settings['env-args'], ...settings['extra-env-kwargs'] };
  await using opened = await openEnvironment(envId, args, { environmentsDir, variables: process.env, signal });
  return Object.keys(opened.environment.roles ?? {});
}

async function play(fresh: PreparedRun, target: PolicyTarget, surroundings: RunSurroundings): Promise<EvaluationOutcome> {
  const { settings } = fresh.planned;
  const { context } = surroundings;
  const { directory, resume } = await runDirectory(settings, evaluationOptions(fresh, target, surroundings), context);
  await fresh.opened.images.keepIn(join(directory, 'images'));
  const prepared = resume ? { ...fresh, counts: resumedCounts(settings, fresh.counts, directory) } : fresh;
  const { planned, policy, counts } = prepared;
  const progress = openProgress(prepared, context);
  const started = () => {
    announce(prepared, context);
    const size = `${plural(counts.rows, 'row')} × ${plural(counts.rolloutsPerExample, 'rollout')}`;
    context.note(`${planned.envId}: ${size}, ${escapeControls(policy.description ?? 'no model is asked')}; saving to ${displayPath(directory)}`);
  };
  context.onInterrupt = () => progress.note('stopping and saving finished rollouts; press Ctrl-C again to stop at once');
  try {
    const { summary } = await evaluate({
      ...evaluationOptions(prepared, target, surroundings),
      outputDir: directory,
      resume,
      onEvent: (event) => {
        if (event.type === 'started') started();
        progress.onEvent(event);
      },
    });
    progress.close();
    noteEnding(summary, context, surroundings.words);
    return { summary, text: context.redact(summaryText(summary, prepared, surroundings.words)), facts: describeRun(prepared) };
  } finally {
    progress.close();
    context.onInterrupt = null;
  }
}

function evaluationOptions(prepared: PreparedRun, target: PolicyTarget, { context, packageVersion }: RunSurroundings) {
  const { planned, opened, policy, roles, cost, sampling, counts, secrets } = prepared;
  const { settings } = planned;
  return {
    environment: opened.environment,
    client: policy.client,
    ...(roles.models.stats.size === 0 ? {} : { models: roles.models }),
    ...(cost === null ? {} : { cost }),
    run: identityOf(prepared, target, packageVersion),
    sampling: sampling.sampling,
    maxTokens: sampling.maxTokens,
    numExamples: counts.rows,
    rolloutsPerExample: counts.rolloutsPerExample,
    maxConcurrent: settings['max-concurrent'] ?? DEFAULTS.maxConcurrent,
    seed: counts.seed,
    shuffle: settings.shuffle ?? false,
    shuffleSeed: counts.shuffleSeed,
    timeoutMs: settings.timeout ? settings.timeout * 1000 : null,
    ...(settings['max-scoring'] === undefined ? {} : { maxScoring: settings['max-scoring'] }),
    ...(settings['scoring-timeout'] === undefined
      ? {}
      : { scoringTimeoutMs: settings['scoring-timeout'] === 0 ? null : settings['scoring-timeout'] * 1000 }),
    timeoutNames: { rollout: '--timeout', scoring: '--scoring-timeout' },
    maxRetries: settings['max-retries'] ?? DEFAULTS.maxRetries,
    independentScoring: settings['independent-scoring'] ?? false,
    stateColumns: settings['state-columns'] ?? [],
    resume: false,
    secrets,
    signal: context.signal,
  };
}

/** Prints notices before the first rollout; a run that fails earlier prints none. */
function announce({ planned, notices, opened, counts }: PreparedRun, context: CommandContext): void {
  for (const notice of [...(opened.environment.notices ?? []), ...notices]) context.note(escapeControls(notice));
  const { rows: count, shuffleSeed } = counts;
  const leftOut = leftOutTasks({ rows: opened.environment.eval, count, shuffleSeed: planned.settings.shuffle === true ? shuffleSeed : null });
  if (leftOut !== null) context.note(escapeControls(leftOut));
  if (counts.missing === 0) return;
  const { length } = opened.environment.eval;
  context.note(`${planned.envId} has only ${plural(length, 'row')}, ${countText(counts.missing)} fewer than requested; each is played once`);
}

function identityOf({ opened, environmentArgs, policy, roles }: PreparedRun, target: PolicyTarget, packageVersion: string): RunIdentity {
  return {
    envId: opened.environment.id,
    envArgs: environmentArgs,
    model: policy.model,
    baseUrl: policy.baseUrl,
    policyKind: target.kind === 'program' ? 'none' : policy.client.capabilities.kind,
    roles: roles.players,
    packageVersion,
    ...opened.versions,
    ...(target.kind === 'endpoint' && target.alias !== null ? { endpointName: target.alias } : {}),
  };
}

function openProgress({ planned, policy }: PreparedRun, context: CommandContext): Progress {
  const plain = Boolean(planned.settings.plain) || !process.stderr.isTTY || process.env['TERM'] === 'dumb';
  return new Progress({
    stream: process.stderr,
    plain,
    paint: plain ? noPaint : paintFor(process.stderr, { plain }),
    title: `${planned.envId}  ${policy.model}`,
    verbose: Boolean(planned.settings.verbose),
    redact: context.redact,
  });
}

/** -n and -r from the command line, else from the environment's package.json, else our defaults. */
function countsOf(settings: Settings, { environment, defaults }: OpenedEnvironment): Counts {
  const available = environment.eval.length;
  if (available === 0) throw new ConfigError(`${environment.eval.name} has no rows to evaluate`);
  const asked = settings['num-examples'] ?? defaults.numExamples ?? DEFAULTS.numExamples;
  const wanted = asked === -1 ? available : asked;
  const seed = settings.seed ?? DEFAULTS.seed;
  return {
    rows: Math.min(wanted, available),
    // Only a number that the user gave deserves a notice.
    missing: settings['num-examples'] === undefined ? 0 : Math.max(0, wanted - available),
    rolloutsPerExample: settings['rollouts-per-example'] ?? defaults.rolloutsPerExample ?? DEFAULTS.rolloutsPerExample,
    seed,
    shuffleSeed: settings['shuffle-seed'] ?? seed,
  };
}

/** Without -n a resumed run keeps its number of rows. */
function resumedCounts(settings: Settings, counts: Counts, directory: string): Counts {
  const rows = settings['num-examples'] === undefined ? recordedRun(directory)?.rows : undefined;
  return rows === undefined ? counts : { ...counts, rows };
}
