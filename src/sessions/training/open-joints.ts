/** The losses, the credit and the source of a run: built in, from the environment, or from the user's modules. */
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Environment } from '../../core/environment.ts';
import { trainingRows } from '../../core/training-rows.ts';
import { ConfigError, VfError } from '../../core/errors.ts';
import { ownCodeText } from '../../core/thrown-place.ts';
import { userTextLines } from '../../files/user-lines.ts';
import { environmentFunction, moduleFunction, optionalModuleFunction } from '../../registry/load-export.ts';
import { isModulePath } from '../../core/module-path.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { ENVIRONMENT_CREDIT } from '../../trainer/config/own-credit.ts';
import type { CreditFactory, OwnCredit } from '../../trainer/credit.ts';
import { openCredit } from '../../trainer/credit/registry.ts';
import type { TriedRows } from '../../trainer/credit/made-up-rollouts.ts';
import { tryCredit } from '../../trainer/credit/try-credit.ts';
import { tryLosses } from '../../trainer/loop/try-losses.ts';
import { assertRoleHasValues, withPlayedRoles } from '../../trainer/losses/loss-roles.ts';
import { lossTerms } from '../../trainer/losses/loss-terms.ts';
import type { LossTerm, PlayedRoles } from '../../trainer/token-loss.ts';
import type { LossFactory } from '../../trainer/losses/registry.ts';
import { checkedSource } from '../../trainer/sources/checked-source.ts';
import { RolloutFileSource } from '../../trainer/sources/rollout-file-source.ts';
import { assertFillsSteps, type RolloutGroupsOptions } from '../../trainer/sources/rollout-groups.ts';
import type { CreateSource, DeclareRoles, TrajectorySource } from '../../trainer/trajectory-source.ts';
import { POLICY_ROLE } from '../../trainer/trajectory.ts';
import { type DemonstrationOptions, openDemonstrations } from './open-demonstrations.ts';
import { modelFacts } from '../../files/model-facts.ts';
import { openTokenKinds } from './open-token-kinds.ts';
import type { TrainingRun } from '../../trainer/training-session.ts';
import { localTokenizerHash } from '../policy/local-tokenizer-hash.ts';
import { modelFolder } from '../policy/model-folder.ts';

export interface JointOptions extends DemonstrationOptions {
  /** The environment was loaded from a module. */
  readonly hasModule: boolean;
  /** The caller's own credit. @default the one that the settings name */
  readonly credit?: CreditFactory;
  /** The base is downloaded later: what needs its tokenizer is not opened. @default false */
  readonly isBaseLater?: boolean;
}

export type OpenedJoints = Pick<TrainingRun, 'losses' | 'ownCredit' | 'tokenKinds' | 'createSource' | 'openDemonstrations'>;

/** The losses, the credit, the source and the demonstrations of a run. Throws ConfigError. */
export async function openJoints(
  config: TrainingConfig,
  environment: Environment,
  { hasModule, isBaseLater = false, ...options }: JointOptions,
): Promise<OpenedJoints> {
  const played = await openPlayedRoles(config, environment, { hasModule });
  const losses = await openLosses(config, environment, { played });
  const ownCredit = await openOwnCredit(config, { hasModule, environment, ...(options.credit === undefined ? {} : { credit: options.credit }) });
  const needsKinds = losses.some(({ loss }) => loss.needs.kinds === true) || openCredit(config, ownCredit).needs?.kinds === true;
  const createSource = await openSource(config, { ...options, hasModule, played });
  const demonstrations = config.sft.data === null ? null : await openDemonstrations(config, environment, options);
  return {
    losses,
    ...(ownCredit === null ? {} : { ownCredit }),
    ...(needsKinds && !isBaseLater ? { tokenKinds: await openTokenKinds(config, options.variables) } : {}),
    ...(createSource === null ? {} : { createSource }),
    ...(demonstrations === null ? {} : { openDemonstrations: demonstrations.tokenise }),
  };
}

export interface SourceOptions extends Partial<DemonstrationOptions> {
  /** The environment was loaded from a module. @default true */
  readonly hasModule?: boolean;
  /** @default the source does not say */
  readonly played?: PlayedRoles | null;
}

/** Throws ConfigError for an unknown loss, wrong settings, or a module that cannot be imported or fails on made-up rollouts. */
export async function openLosses(
  config: TrainingConfig,
  environment: Environment,
  { played = null }: Pick<SourceOptions, 'played'> = {},
): Promise<LossTerm[]> {
  const used = [
    { use: config.algorithm.loss.use, key: 'algorithm.loss.use' },
    ...Object.entries(config.losses).flatMap(([name, { use }]) => (use === undefined ? [] : [{ use, key: `losses.${name}.use` }])),
  ];
  const modules = new Map<string, LossFactory>();
  for (const { use, key } of used) if (isModulePath(use)) modules.set(use, (await moduleFunction(use, 'createLoss', key)) as LossFactory);
  const context = { algorithm: config.algorithm, responseTokens: environment.limits.responseTokens };
  const open = () => lossTerms(config, context, modules, played);
  const losses = open();
  if (modules.size > 0) await tryLosses(open(), config, triedRows(environment));
  return losses;
}

interface OwnCreditOptions extends Pick<SourceOptions, 'hasModule'>, Partial<Pick<JointOptions, 'credit'>> {
  /** Its rows and metrics are those of the rollouts on which the credit is tried. @default made-up ones */
  readonly environment?: Environment;
}

/** The credit of the caller, a module or the environment, tried on made-up rollouts; null for a built-in one. Throws ConfigError, before any server is started. */
export async function openOwnCredit(config: TrainingConfig, options: OwnCreditOptions = {}): Promise<OwnCredit | null> {
  const own = await foundCredit(config, options);
  if (own === null) openCredit(config, own);
  else await tryCredit(own, config, triedRows(options.environment));
  return own;
}

/** What made-up rollouts take from the real rows and metrics. */
function triedRows(environment: Environment | undefined): TriedRows {
  const train = environment === undefined ? null : trainingRows(environment);
  const rows = train === null ? [] : Array.from({ length: Math.min(2, train.length) }, (_, i) => train.at(i));
  return { rows, metrics: environment?.rubric.names ?? [] };
}

async function foundCredit(config: TrainingConfig, { hasModule = true, credit }: OwnCreditOptions): Promise<OwnCredit | null> {
  const { use } = config.algorithm.advantage;
  const { id } = config.environment;
  if (credit !== undefined) return { createCredit: credit, module: 'of the option credit' };
  if (isModulePath(use)) {
    const key = 'algorithm.advantage.use';
    return { createCredit: (await moduleFunction(use, 'createCredit', key)) as CreditFactory, module: `${use} (${key})` };
  }
  if (use !== ENVIRONMENT_CREDIT) return null;
  const createCredit = hasModule ? ((await environmentFunction(id, 'createCredit')) as CreditFactory | null) : null;
  if (createCredit === null)
    throw new ConfigError(`algorithm.advantage.use = "environment" needs an environment whose module exports createCredit, but ${id} exports none`);
  return { createCredit, module: id };
}

/** The roles that the run's source plays, or that rollouts of a file can have; null if nothing says so. */
export async function openPlayedRoles(config: TrainingConfig, environment: Environment, { hasModule = true } = {}): Promise<PlayedRoles | null> {
  const { source, rolloutsFile } = config;
  const exported = (name: string) => {
    if (source !== null) return optionalModuleFunction(source, name, 'source');
    return hasModule ? environmentFunction(config.environment.id, name) : null;
  };
  const declare = (await exported('playedRoles')) as DeclareRoles | null;
  if (declare === null && rolloutsFile !== null) return null;
  // An agent names the roles of its branches while it plays.
  if (declare === null && environment.asksPolicy === true) return null;
  if (declare === null) return (await exported('createSource')) === null ? rolesOfRows(environment) : null;
  const module = source ?? config.environment.id;
  try {
    const played: unknown = declare({ config, environment });
    if (isObject(played) && Object.keys(played).length > 0 && Object.values(played).every(isObject)) return played as PlayedRoles;
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`playedRoles of ${module} failed: ${ownCodeText(cause)}`, { cause });
  }
  throw new ConfigError(`playedRoles of ${module} must return an object for each role by its name, such as { propose: {}, solve: {} }`);
}

/**
 * The source of `rollouts_file`, the one that `source` names, or the one that the environment's module exports; null for sampled rollouts of the training rows.
 * `hasModule`: the environment was loaded from a module.
 */
export async function openSource(config: TrainingConfig, options: SourceOptions = {}): Promise<CreateSource | null> {
  const { hasModule = true, played = null, variables = {}, warn = () => {} } = options;
  const { source, rolloutsFile, environment } = config;
  if (rolloutsFile !== null) {
    const withRoles = played === null ? config : withPlayedRoles(config, played);
    return rolloutsOf(rolloutsFile, withRoles, { variables, warn });
  }
  if (source === null && !hasModule) return null;
  const created =
    source === null ? await environmentFunction(environment.id, 'createSource') : await moduleFunction(source, 'createSource', 'source');
  if (created === null) return null;
  const { vocabularySize } = modelFacts(modelFolder(config.model.path, variables));
  return checkedSource(created as CreateSource, source ?? environment.id, { roles: played, vocabularySize });
}

function rolesOfRows({ train }: Environment): PlayedRoles {
  const roles = new Set(Array.from(train, ({ role = POLICY_ROLE }) => role));
  return Object.fromEntries([...roles].map((role) => [role, {}]));
}

async function rolloutsOf(
  path: string,
  config: TrainingConfig,
  { variables, warn }: Pick<DemonstrationOptions, 'variables' | 'warn'>,
): Promise<CreateSource> {
  const { rollouts, model, steps } = config;
  const isStream = path === '-';
  const tokenizerHash = await localTokenizerHash(model.path);
  const reading = (): RolloutGroupsOptions => {
    const { vocabularySize, contextLength } = modelFacts(modelFolder(model.path, variables));
    return {
      name: isStream ? 'stdin' : path,
      lines: () => (isStream ? createInterface({ input: process.stdin }) : fileLines(path)),
      rolloutsPerGroup: rollouts.rolloutsPerExample,
      temperature: rollouts.temperature,
      tokenizerHash,
      vocabularySize,
      longest: contextLength ?? Infinity,
      onRole: (role) => assertRoleHasValues(config, role),
    };
  };
  const groupsPerStep = rollouts.examplesPerStep;
  // A resumed run may have all of its steps on file already.
  const rest = !isStream && existsSync(path) ? await assertFillsSteps(reading(), { steps, groupsPerStep }) : null;
  if (rest !== null) warn(rest);
  // The facts of the model are known at the latest when the source is opened, as the backend then has it.
  const open: CreateSource = ({ store, stepsBefore }) =>
    new RolloutFileSource({ ...reading(), startsOver: !isStream, stepsBefore, groupsPerStep, onLeftOut: warn, store });
  if (!isStream) return open;
  // If a lost backend makes a new session, the session goes on with the lines that the previous one has read but not used.
  let opened: TrajectorySource | null = null;
  return (context) => (opened ??= open(context));
}

async function* fileLines(path: string): AsyncGenerator<string, void> {
  for await (const { text } of userTextLines(path, { remedy: 'name one that vf-export wrote, or - for stdin' })) yield text;
}
