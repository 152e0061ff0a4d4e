/** The recorded configuration of a run as a layer of settings, and what an edit of its file changed. */
import { readTomlSync } from '../../files/toml-text.ts';
import { isObject } from '../../schemas/is-object.ts';
import type { WireTrainingRun } from '../../schemas/training-records.ts';
import { type ConfigLayer, type ResolvedConfig, resolveTrainingConfig } from '../../trainer/config/resolve-config.ts';
import { describeDifferences } from '../../trainer/config/resume-config.ts';
import { trainingPaths } from '../../trainer/records/training-directory.ts';

/** Throws ConfigError if the record cannot be read. */
export function recordedLayer(directory: string): ConfigLayer {
  return { source: 'config.toml of the run', table: readTomlSync(trainingPaths(directory).config) };
}

export interface BeforeResume {
  /** The settings with which the run has been trained, whatever config.toml says now. */
  readonly wire: ResolvedConfig['wire'];
  /** Dotted keys that config.toml sets otherwise: it was edited. */
  readonly edited: readonly string[];
}

/** `now` fills in the secrets that the record hides. An edit is unknown in a run of an earlier version, which recorded no settings in run.json. */
export function settingsBefore(directory: string, { settings }: WireTrainingRun, now: ResolvedConfig['wire']): BeforeResume {
  const ofFile = resolveTrainingConfig([withSecretsOf(recordedLayer(directory), now)]).wire;
  if (settings === undefined) return { wire: ofFile, edited: [] };
  const { wire } = resolveTrainingConfig([withSecretsOf({ source: 'run.json', table: settings }, now)]);
  return { wire, edited: describeDifferences(wire, ofFile).map(({ key }) => key) };
}

/** Fills in the secrets that the record hides from a configuration that has them, so that they do not count as differences. */
function withSecretsOf({ source, table }: ConfigLayer, wire: ResolvedConfig['wire']): ConfigLayer {
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
