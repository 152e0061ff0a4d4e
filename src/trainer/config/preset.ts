/** A preset: ready-made settings of a run that an environment brings, with every upstream value that differs here and the reason. */
import type { XStatic } from 'typebox/schema';
import { ConfigError } from '../../core/errors.ts';
import { fieldsOf, isObject } from '../../schemas/is-object.ts';
import { closed, filledText, flag, listOf } from '../../schemas/json-schema.ts';
import { schemaCheck, schemaProblem } from '../../schemas/schema-check.ts';
import { type ConfigLayer, PRESET_SOURCE } from './resolve-config.ts';

const headSchema = closed(
  {
    /** One line. */
    summary: filledText,
  },
  {
    /** From upstream. `key` is dotted, or upstream's name if there is no key here. */
    differences: listOf(closed({ key: filledText, upstream: filledText, ours: filledText, why: filledText })),
    /** Arguments of `[environment.args]` without which its model, which knows one world only, cannot play. */
    world: listOf(filledText),
    /** True if it also trains other environments than the one that brings it. @default false */
    any_environment: flag,
  },
);

export interface Preset {
  readonly name: string;
  /** The id or path of the environment that brings it. */
  readonly environment: string;
  readonly summary: string;
  /** True if it trains other environments too. */
  readonly anyEnvironment: boolean;
  readonly differences: NonNullable<XStatic<typeof headSchema>['differences']>;
  /** The arguments of the environment that describe the only world that its model knows; empty if it knows more. */
  readonly world: Readonly<Record<string, unknown>>;
  /** Its settings, including those of the environment. */
  readonly table: ConfigLayer['table'];
}

/**
 * Reads a preset from a parsed TOML file: a table `[preset]` with `summary`, `differences`, `world` and `any_environment`, and settings. Throws ConfigError.
 * @param path of the file, for errors
 */
export function presetOf(
  file: Readonly<Record<string, unknown>>,
  { name, environment, path }: { name: string; environment: string; path: string },
): Preset {
  const { preset, ...settings } = file;
  const isHead = schemaCheck(headSchema);
  if (!isHead(preset)) throw new ConfigError(`${path} is not a preset: in [preset], ${schemaProblem(isHead, 'the table')}.`);
  const given = settings['environment'] ?? {};
  if (!isObject(given)) throw new ConfigError(`${path} is not a preset: environment must be a table.`);
  const { summary, differences = [], world = [], any_environment: anyEnvironment = false } = preset;
  const args = fieldsOf(given['args']);
  const absent = world.find((argument) => args[argument] === undefined);
  if (absent !== undefined) throw new ConfigError(`${path} is not a preset: preset.world names ${absent}, which is not in [environment.args].`);
  return {
    name,
    environment,
    summary,
    anyEnvironment,
    differences,
    world: Object.fromEntries(world.map((argument) => [argument, args[argument]])),
    table: { ...settings, environment: { ...given, id: environment } },
  };
}

export function presetLayer({ name, table }: Preset): ConfigLayer {
  return { source: `${PRESET_SOURCE}${name}`, table };
}
