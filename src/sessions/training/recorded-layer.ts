/** The recorded configuration of a run as a layer of settings. */
import { readTomlSync } from '../../files/toml-text.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { ConfigLayer, ResolvedConfig } from '../../trainer/config/resolve-config.ts';
import { trainingPaths } from '../../trainer/records/training-directory.ts';

/** Throws ConfigError if the record cannot be read. */
export function recordedLayer(directory: string): ConfigLayer {
  return { source: 'config.toml of the run', table: readTomlSync(trainingPaths(directory).config) };
}

/** Fills in the secrets that the record hides from a configuration that has them, so that they do not count as differences. */
export function withSecretsOf({ source, table }: ConfigLayer, wire: ResolvedConfig['wire']): ConfigLayer {
  return { source, table: revealed(table, wire) as Record<string, unknown> };
}

function revealed(recorded: unknown, known: unknown): unknown {
  if (isHidden(recorded)) return known ?? recorded;
  if (!isObject(recorded)) return recorded;
  return Object.fromEntries(Object.entries(recorded).map(([key, value]) => [key, revealed(value, isObject(known) ? known[key] : undefined)]));
}

function isHidden(recorded: unknown): boolean {
  return Array.isArray(recorded) ? recorded.some(isHidden) : typeof recorded === 'string' && recorded.includes('***');
}
