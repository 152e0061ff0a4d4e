/** Finds flags, settings, arguments and roles that would stop a training of the rounds, before the first one. Loads no environment. */
import { dirname, resolve } from 'node:path';
import type { RoleDeclarations } from '../../core/model.ts';
import { checkEnvironmentArguments } from '../../registry/check-arguments.ts';
import { environmentIfFound, findEnvironment } from '../../registry/find-environment.ts';
import { environmentExport } from '../../registry/load-export.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { resolveRoles } from '../../sessions/roles/resolve-roles.ts';
import { resolveTraining, type TrainingSetup } from '../../sessions/training/resolve-training.ts';
import { inPlace } from './in-place.ts';
import type { RoundsContext } from './round-commands.ts';
import { focusedAt, type RoundsConfig, type TrainingTable } from './rounds-config.ts';
import { supervisedWords } from './supervised-words.ts';

export type TrainingContext = Pick<RoundsContext, 'commands' | 'variables' | 'secrets'>;

/** Adds secrets of the settings to those of the context. Rejects with ConfigError. */
export async function checkTrainings(config: RoundsConfig, context: TrainingContext): Promise<void> {
  const { path, environment, phase1, sft, output } = config;
  if (!environment.endsWith('.toml')) await inPlace(`environment in ${path}`, () => void findEnvironment(environment));
  // A placeholder for a file that does not exist yet.
  const data = resolve(output, 'round-1', 'sft-data', 'sft.jsonl');
  const supervised = { ...sft, flags: [...supervisedWords({ path: data, count: 1, run: dirname(data) }), ...sft.flags] };
  const focused = config.focused.map((_, i) => focusedAt(config, i + 1));
  for (const [table, name] of [[phase1, '[phase1]'] as const, ...focused, [supervised, '[sft]'] as const]) {
    const place = `training ${name} of ${path}`;
    const setup = await inPlace(`The ${place}`, () => setupOf(config, table, context, data));
    for (const secret of setup.secrets) context.secrets.add(secret);
    await inPlace(`The arguments of the ${place}`, () => checkArguments(setup.config, context.variables));
    await inPlace(`The roles of the ${place}`, () => checkRoles(setup.config, context.variables));
  }
}

/** Checks the roles that the environment's module declares, without a connection. */
async function checkRoles(
  { environment: { id }, roles }: Pick<TrainingConfig, 'environment' | 'roles'>,
  variables: NodeJS.ProcessEnv,
): Promise<void> {
  const declared = environmentIfFound(id) === null ? null : await environmentExport(id, 'roles');
  if (isObject(declared)) await resolveRoles(declared as RoleDeclarations, roles, { variables });
}

async function checkArguments({ environment: { id, args, evalArgs } }: Pick<TrainingConfig, 'environment'>, env: NodeJS.ProcessEnv): Promise<void> {
  // The training itself reports an environment that is not installed.
  if (environmentIfFound(id) === null) return;
  await checkEnvironmentArguments(id, args, { env, purpose: 'training' });
  if (Object.keys(evalArgs).length > 0) await checkEnvironmentArguments(id, { ...args, ...evalArgs }, { env, purpose: 'evaluation' });
}

/** The configuration of a training on the rows of phase 1, from its table, its preset and the defaults. */
export async function trainingConfigOf(config: RoundsConfig, table: TrainingTable, context: TrainingContext): Promise<TrainingConfig> {
  return (await setupOf(config, table, context)).config;
}

async function setupOf(
  { environment, rows, rowsArgument }: RoundsConfig,
  { flags, arguments: args }: TrainingTable,
  { commands, variables }: TrainingContext,
  laterRows?: string,
): Promise<TrainingSetup> {
  const request = commands.trainingRequest([environment, ...flags, '-a', JSON.stringify({ ...args, [rowsArgument]: rows })]);
  return resolveTraining(request, { variables, ...(laterRows !== undefined && { laterRows }) });
}
