/** Scores a run again: opens the environment, its rubric and the models of its roles, scores, and returns the changes. */
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { NO_POLICY } from '../../clients/no-policy.ts';
import { ConfigError } from '../../core/errors.ts';
import type { Rubric } from '../../core/rubric.ts';
import { WeightedRubric, type Weights } from '../../core/weighted-rubric.ts';
import { packageVersion } from '../../data/package-root.ts';
import { copyRun } from '../../evaluate/copy-run.ts';
import { evaluationRun } from '../../evaluate/evaluation-of-training.ts';
import { isTrainingEvaluation, readTrainingEvaluation } from '../../evaluate/training-evaluation.ts';
import { readMetadata } from '../../evaluate/run-records.ts';
import { runFiles } from '../../evaluate/run-files.ts';
import { moduleDigests } from '../../files/input-digests.ts';
import { fileState } from '../../evaluate/score-journal.ts';
import { type ScoreOptions, scoringDigest } from '../../evaluate/score-options.ts';
import { scoreRun } from '../../evaluate/score-run.ts';
import { environmentFacts } from '../../registry/environment-facts.ts';
import { loadRubric } from '../../registry/load-rubric.ts';
import type { RoleTables } from '../../schemas/roles-config.ts';
import type { WireMetadata } from '../../schemas/results.ts';
import type { ScoredRun } from '../../reports/evaluation/scored-text.ts';
import { openEnvironment } from '../environment/open-environment.ts';
import { secretsOf } from '../policy/secrets.ts';
import { environmentInputs } from '../evaluation/evaluation-inputs.ts';
import { openRoles } from '../roles/open-roles.ts';
import { resolveRoles } from '../roles/resolve-roles.ts';
import type { Surroundings } from '../surroundings.ts';
import { abandonPlace, assertOutside, closePlace, openPlace, type ScoreOutput } from './score-place.ts';
import { scoreRoles } from './score-roles.ts';
import { assertSameScores, isOtherEnvironment, recordedSettings, scoreArguments, scoringEnvironment } from './score-settings.ts';
import { assertNamesNoFile, trustedEnvironment, variablesFor, withheldText } from './trusted-run.ts';

export interface ScoringRequest {
  /** Null scores in place. */
  readonly output: ScoreOutput | null;
  readonly failed: boolean;
  readonly rubric: string | null;
  readonly weights: Weights;
  readonly args: Readonly<Record<string, unknown>>;
  readonly roles: RoleTables;
  readonly askAgain: boolean;
  /** Id or path of the environment; null for the one that the run names. */
  readonly environment: string | null;
  readonly environmentsDir: string;
  readonly endpointsPath: string | null;
  readonly maxScoring: number;
  /** Seconds; 0 sets no deadline. */
  readonly scoringTimeout: number;
}

export interface ScoringSurroundings extends Surroundings {
  /** Takes a line about the models by role. */
  readonly note: (line: string) => void;
  readonly onProgress: NonNullable<ScoreOptions['onProgress']>;
}

/**
 * Throws ConfigError for settings that do not fit the run, for code, files and servers that only the run names, and for a place that is taken.
 * @param run the folder of an evaluation, or the file of an evaluation of a training run, as the user named it
 */
export async function runScoring(run: string, flags: ScoringRequest, context: ScoringSurroundings): Promise<ScoredRun> {
  const trained = isTrainingEvaluation(run) ? await readTrainingEvaluation(run) : null;
  if (trained !== null && flags.output === null)
    throw new ConfigError(`${run} is part of a training run, which stays as it is. Leave --in-place out.`);
  for (const note of trained?.notes ?? []) context.warn(note);
  const recordedRun = trained === null ? await readMetadata(run) : { env_id: trained.envId, env_args: { ...trained.envArgs }, config: {} };
  const folder = trained?.run ?? run;
  if (flags.output !== null) assertOutside(flags.output, folder);
  const { environmentsDir, endpointsPath } = flags;
  const envId = trustedEnvironment(recordedRun.env_id, { folder, given: flags.environment, environmentsDir });
  const facts = await environmentFacts(envId, { environmentsDir });
  assertNamesNoFile({ folder, facts, recorded: recordedRun.env_args, given: flags.args });
  const { variables, withheld } = variablesFor(recordedRun.env_args, flags.args, context.variables);
  if (withheld !== null) context.warn(withheldText(withheld));
  const args = scoreArguments(run, recordedRun, flags.args);
  const secrets = new Set(secretsOf({ settings: [args] }));
  for (const secret of secrets) context.secrets.add(secret);
  await using opened = await openEnvironment(envId, args, {
    environmentsDir,
    variables,
    signal: context.signal,
    note: context.warn,
  });
  const { environment } = opened;
  const training = trained === null ? null : evaluationRun(trained, environment, { packageVersion: packageVersion() });
  const before = training?.metadata ?? (await readMetadata(run));
  const own = flags.rubric === null ? null : await loadRubric(flags.rubric, environment);
  const rubric = own?.rubric ?? environment.rubric;
  const weighted = Object.keys(flags.weights).length === 0 ? null : new WeightedRubric(rubric, flags.weights);
  for (const notice of metricNotices(rubric, flags.weights)) context.warn(notice);
  const recorded = (before.config['roles'] ?? {}) as Readonly<Record<string, string>>;
  const declared = { ...environment.roles, ...own?.roles };
  const { declarations, recordedOnly } = scoreRoles(declared, flags.roles, recorded);
  const resolved = await resolveRoles(declarations, flags.roles, { endpointsPath, variables: context.variables });
  for (const secret of secretsOf({ roles: resolved })) {
    secrets.add(secret);
    context.secrets.add(secret);
  }
  await using roles = await openRoles(resolved, {
    policy: { name: NO_POLICY.name, client: () => NO_POLICY, capabilities: NO_POLICY.capabilities },
    images: opened.images,
    onNotice: context.warn,
    secrets,
    signal: context.signal,
  });
  opened.bindModels(roles.models.models);
  const scoring = scoringEnvironment(environment.id, opened.entry);
  const isOther = flags.environment !== null && isOtherEnvironment(recordedRun.env_id, scoring, environmentsDir);
  const settings = recordedSettings(flags, isOther ? scoring : null);
  if (flags.failed) assertSameScores(before, settings, { directory: run, players: roles.identities });
  for (const notice of roles.notices) context.note(notice);
  const fromScore = weighted !== null && !isOther && isSum(flags, before) ? weighted : null;
  const servers = resolved.map(({ role, player }) => [role, player.kind === 'endpoint' ? player.baseUrls.toSorted() : []] as const);
  const inputs = {
    ...(fromScore === null ? await environmentInputs(envId, args, environmentsDir) : {}),
    ...(flags.rubric === null ? {} : { rubric: await moduleDigests(flags.rubric) }),
  };
  const basis = { askAgain: flags.askAgain, environment: scoring, servers: Object.fromEntries(servers) };
  const options: Omit<ScoreOptions, 'directory' | 'basis'> = {
    environment: { eval: environment.eval, rubric: weighted ?? rubric, ...finishOf(environment) },
    ...(roles.models.stats.size === 0 ? {} : { models: roles.models }),
    asksAgain: (role) => !recordedOnly.has(role) && (flags.askAgain || (recorded[role] !== undefined && recorded[role] !== roles.identities[role])),
    failedOnly: flags.failed,
    ...(fromScore === null ? {} : { fromScore: (score) => fromScore.reweighed(score) }),
    settings,
    players: roles.identities,
    inputs,
    maxScoring: flags.maxScoring,
    scoringTimeoutMs: flags.scoringTimeout === 0 ? null : flags.scoringTimeout * 1000,
    timeoutNames: { rollout: '--scoring-timeout', scoring: '--scoring-timeout' },
    packageVersion: packageVersion(),
    secrets: [...secrets],
    signal: context.signal,
    onProgress: context.onProgress,
  };
  if (flags.output === null) {
    await opened.images.keepIn(join(run, 'images'));
    const result = await scoreRun({ ...options, basis, directory: run });
    return { run, directory: run, result, after: await readMetadata(run) };
  }
  const source = { of: realpathSync(run), results: await fileState(trained === null ? runFiles(run).results : run) };
  const asNew = { ...options, basis: { ...basis, ...source }, recordsFailures: true };
  const place = await openPlace(flags.output, {
    digest: scoringDigest(asNew),
    copyTo: (copy) => (training === null ? copyRun(run, copy) : training.write(copy)),
  });
  try {
    // The pictures that a judge sees.
    await opened.images.keepIn(join(place.working, 'images'));
    const result = await scoreRun({ ...asNew, directory: place.working, copyOf: run, isLocked: true, keepsJournal: true });
    await closePlace(place);
    return { run, directory: place.directory, result, after: await readMetadata(place.directory) };
  } catch (error) {
    await abandonPlace(place);
    throw error;
  }
}

/** A metric may be a count without an upper bound, which outweighs every reward. */
function metricNotices({ weights: before }: Rubric, weights: Weights): string[] {
  return Object.entries(weights).flatMap(([name, weight]) =>
    weight === 0 || before.get(name) !== 0 ? [] : [`"${name}" is a metric of weight 0; with ${weight} times its value it is now part of the reward`],
  );
}

/** If only weights change, neither the rubric's functions nor the episode's state is needed. */
function isSum({ rubric, args, roles, failed, askAgain }: ScoringRequest, { config }: WireMetadata): boolean {
  const isOwn = rubric === null && Object.keys(args).length === 0 && Object.keys(roles).length === 0;
  return isOwn && !failed && !askAgain && config['scoring'] === undefined;
}

function finishOf(environment: Awaited<ReturnType<typeof openEnvironment>>['environment']): Pick<ScoreOptions['environment'], 'finish'> {
  return environment.finish === undefined ? {} : { finish: (context) => environment.finish!(context) };
}
