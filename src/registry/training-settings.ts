/** Asks an environment which settings of `vf-train` its arguments stand for, through the optional export `trainingSettings` next to `loadEnvironment`. */
import { ConfigError, thrownText, VfError } from '../core/errors.ts';
import { isObject } from '../schemas/is-object.ts';
import { environmentFunction } from './load-export.ts';

/** A setting of `vf-train` that an argument of an environment stands for. */
export interface TrainingSetting {
  /** The argument, as the user knows it. */
  readonly argument: string;
  /** The setting, dotted and in snake_case: `rollouts.rollouts_per_example`. */
  readonly key: string;
  readonly value: string | number | boolean;
}

export interface TrainingSettingsContext {
  /** Environment variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The value that preset, file and flags give to a key of `vf-train`, else its default; undefined if it has none. */
  readonly settingOf: (key: string) => unknown;
}

/**
 * The type of an environment's export `trainingSettings`. It gets the arguments unchanged and returns the settings that they stand for; it ignores other arguments.
 * @example export const trainingSettings: TrainingSettings = ({ group_size: value }) =>
 *   typeof value === 'number' ? [{ argument: 'group_size', key: 'rollouts.rollouts_per_example', value }] : [];
 */
export type TrainingSettings = (
  args: Readonly<Record<string, unknown>>,
  context: TrainingSettingsContext,
) => readonly TrainingSetting[] | Promise<readonly TrainingSetting[]>;

/** The settings that these arguments stand for; none if the environment exports no `trainingSettings`. Throws ConfigError. */
export async function environmentTrainingSettings(
  id: string,
  args: Readonly<Record<string, unknown>>,
  context: TrainingSettingsContext,
): Promise<readonly TrainingSetting[]> {
  const exported = (await environmentFunction(id, 'trainingSettings')) as TrainingSettings | null;
  if (exported === null) return [];
  let settings: unknown;
  try {
    settings = await exported(args, context);
  } catch (cause) {
    if (cause instanceof VfError) throw cause;
    throw new ConfigError(`trainingSettings of the environment ${id} failed: ${thrownText(cause)}`, { cause });
  }
  if (Array.isArray(settings) && settings.every(isSetting)) return settings;
  throw new ConfigError(
    `trainingSettings of the environment ${id} must return a list of { argument, key, value }, where the value is text, a number, true or false`,
  );
}

function isSetting(value: unknown): value is TrainingSetting {
  if (!isObject(value) || typeof value['argument'] !== 'string' || typeof value['key'] !== 'string') return false;
  return ['string', 'number', 'boolean'].includes(typeof value['value']);
}
