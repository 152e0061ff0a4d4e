/** Finds flags and settings that would stop a training of the rounds, before the first one. Loads no environment. */
import { ConfigError } from '../../../core/errors.ts';
import { packageVersion } from '../../../data/package-root.ts';
import { findEnvironment } from '../../../registry/find-environment.ts';
import { parseTrainArguments, type TrainArguments } from '../../train/arguments.ts';
import { readTrainingConfig } from '../../train/read-training-config.ts';
import type { RoundsConfig, TrainingTable } from './rounds-config.ts';

/** Adds secrets of the settings to `secrets`. Rejects with ConfigError. */
export async function checkTrainings(config: RoundsConfig, secrets: Set<string>): Promise<void> {
  const { path, environment, phase1, focused, sft } = config;
  if (!environment.endsWith('.toml')) await inPlace(`environment in ${path}`, async () => void findEnvironment(environment));
  for (const [name, table] of Object.entries({ phase1, focused }))
    await inPlace(`The training [${name}] of ${path}`, async () => {
      for (const secret of (await readTrainingConfig(trainingOf(config, table))).secrets) secrets.add(secret);
    });
  // Its rows do not exist yet, so its settings cannot be resolved.
  await inPlace(`The training [sft] of ${path}`, async () => void trainingOf(config, sft));
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

async function inPlace(place: string, check: () => Promise<void>): Promise<void> {
  try {
    await check();
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause;
    throw new ConfigError(`${place}: ${cause.message}`, { cause });
  }
}
