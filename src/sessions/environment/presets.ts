/** Finds presets: files `presets/<name>.toml` in the folder of an environment. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { suggestion } from '../../core/closest-name.ts';
import { ConfigError } from '../../core/errors.ts';
import { packageRoot } from '../../data/package-root.ts';
import { readExtendedToml } from '../../files/extended-toml.ts';
import { bundledEnvironments, environmentIfFound, findEnvironment, type FindEnvironmentOptions } from '../../registry/find-environment.ts';
import { type Preset, presetOf } from '../../trainer/config/preset.ts';

/** The preset that requires only Node; comes first in lists. */
export const LAPTOP = 'laptop';

/** The presets of all environments of this package; first those that also train other environments. */
export function bundledPresets(): readonly Preset[] {
  const presets = bundledEnvironments().flatMap((id) => presetsIn(bundledFolder(id), id));
  return presets.toSorted((a, b) => Number(b.anyEnvironment) - Number(a.anyEnvironment));
}

/**
 * The presets for one environment: its own first, then the bundled ones.
 * @param environment id or path
 * Throws ConfigError for an environment that does not exist, or a file that is not a preset.
 */
export function presetsFor(environment: string): readonly Preset[] {
  const { folder, isBundled } = findEnvironment(environment);
  const id = isBundled ? basename(folder) : null;
  const own = ownPresets(id ?? environment);
  return [...own, ...bundledPresets().filter((preset) => preset.environment !== id)];
}

/**
 * The preset of that name: one that the environment brings, else a bundled one for any environment.
 * @param environment id or path; null means the environment that brings the preset
 * Throws ConfigError for an unknown name, or a file that is not a preset.
 */
export function presetNamed(name: string, environment: string | null): Preset {
  const own = environment === null ? [] : ownPresets(environment);
  const presets = [...own, ...bundledPresets().filter(({ anyEnvironment }) => anyEnvironment)];
  const preset = presets.find((candidate) => candidate.name === name);
  if (preset !== undefined) return preset;
  const names = [...new Set(presets.map((candidate) => candidate.name))];
  throw new ConfigError(`Unknown preset "${name}"${suggestion(name, names)}; known presets: ${names.join(', ')}`);
}

/** The preset of that name that the environment itself brings; null if it brings none. */
export function ownPreset(name: string, environment: string, options: FindEnvironmentOptions = {}): Preset | null {
  return ownPresets(environment, options).find((preset) => preset.name === name) ?? null;
}

/** The presets that the environment itself brings. */
export function ownPresets(environment: string, options: FindEnvironmentOptions = {}): readonly Preset[] {
  // An environment that cannot be found has an error of its own, and a command for another machine may name one that exists only there.
  const found = environmentIfFound(environment, options);
  return found === null ? [] : presetsIn(found.isBundled ? bundledFolder(basename(found.folder)) : found.folder, environment);
}

/** The sources of a bundled environment, which the package ships next to its compiled modules. */
function bundledFolder(id: string): string {
  return join(packageRoot(), 'environments', id);
}

function presetsIn(environmentFolder: string, environment: string): readonly Preset[] {
  const folder = join(environmentFolder, 'presets');
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).flatMap((file) => (file.endsWith('.toml') ? [file.slice(0, -'.toml'.length)] : []));
  const ordered = names.toSorted((a, b) => Number(b === LAPTOP) - Number(a === LAPTOP) || (a < b ? -1 : 1));
  return ordered.map((name) => {
    const path = join(folder, `${name}.toml`);
    return presetOf(readExtendedToml(path), { name, environment, path });
  });
}
