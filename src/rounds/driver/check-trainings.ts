/** Finds flags, settings and arguments that would stop a training of the rounds, before the first one. Loads no environment. */
import { dirname, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { packageVersion } from '../../data/package-root.ts';
import { checkEnvironmentArguments } from '../../registry/check-arguments.ts';
import { environmentIfFound, findEnvironment } from '../../registry/find-environment.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { parseTrainArguments, type TrainArguments } from '../../cli/train/arguments.ts';
import { readTrainingConfig } from '../../cli/train/read-training-config.ts';
import { inPlace } from './in-place.ts';
import type { RoundsConfig, TrainingTable } from './rounds-config.ts';
import { supervisedWords } from './supervised-words.ts';

/** Adds secrets of the settings to `secrets`. Rejects with ConfigError. */
export async function checkTrainings(config: RoundsConfig, secrets: Set<string>): Promise<void> {
  const { path, environment, phase1, focused, sft, output } = config;
  if (!environment.endsWith('.toml')) await inPlace(`environment in ${path}`, () => void findEnvironment(environment));
  // A file that does not exist yet.
  const data = resolve(output, 'round-1', 'sft-data', 'sft.jsonl');
  const supervised = { ...sft, flags: [...supervisedWords({ path: data, count: 1, run: dirname(data) }), ...sft.flags] };
  for (const [name, table] of Object.entries({ phase1, focused, sft: supervised })) {
    const place = `training [${name}] of ${path}`;
    const setup = await inPlace(`The ${place}`, async () => readTrainingConfig(trainingOf(config, table), { laterRows: data }));
    for (const secret of setup.secrets) secrets.add(secret);
    await inPlace(`The arguments of the ${place}`, () => checkArguments(setup.config));
  }
}

async function checkArguments({ environment: { id, args, evalArgs } }: Pick<TrainingConfig, 'environment'>): Promise<void> {
  const env = process.env;
  // The training itself reports an environment that is not installed.
  if (environmentIfFound(id) === null) return;
  await checkEnvironmentArguments(id, args, { env, purpose: 'training' });
  if (Object.keys(evalArgs).length > 0) await checkEnvironmentArguments(id, { ...args, ...evalArgs }, { env, purpose: 'evaluation' });
}

/** Rows of a step, as the table, its preset or the default has them. */
export async function examplesPerStep(config: RoundsConfig, table: TrainingTable): Promise<number> {
  return (await readTrainingConfig(trainingOf(config, table))).config.rollouts.examplesPerStep;
}

function trainingOf({ environment, rows, rowsArgument }: RoundsConfig, { flags, arguments: args }: TrainingTable): TrainArguments {
  const words = [environment, ...flags, '-a', JSON.stringify({ ...args, [rowsArgument]: rows })];
  const parsed = parseTrainArguments(words, packageVersion());
  if (parsed.kind !== 'train' || parsed.action !== 'train' || parsed.resume !== null)
    throw new ConfigError('its flags have one with which vf-train starts no training, such as -R, --dry-run or --help; leave it out');
  return parsed;
}
