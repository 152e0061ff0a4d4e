/** Removes a key from the settings that earlier layers of a configuration gave. */
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { configKeys, configTable } from '../../schemas/config-keys.ts';
import { isObject } from '../../schemas/is-object.ts';
import { trainingConfigSchema } from '../../schemas/training-config.ts';

const PATHS = configKeys(configTable(trainingConfigSchema)).map(({ path }) => path);

/** @param key dotted. Throws ConfigError for one that no configuration has. */
export function unsetKey(given: Record<string, unknown>, key: string, source: string): void {
  const isKnown = PATHS.some((path) => path === key || path.startsWith(`${key}.`) || key.startsWith(`${path}.`));
  if (!isKnown) throw new ConfigError(`Unknown key ${key} (${source})${suggestion(key, PATHS)}; vf-train --help-config lists them all`);
  const parts = key.split('.');
  const table = parts.slice(0, -1).reduce<unknown>((outer, part) => (isObject(outer) ? outer[part] : undefined), given);
  if (isObject(table)) delete table[parts.at(-1)!];
}
