/** Writes a new environment from the template into a folder of environments. */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { packageRoot } from '../data/package-root.ts';
import { makeFolder } from '../files/make-folder.ts';
import { placeError } from '../files/place-error.ts';
import { hidden, removeLeftOvers, temporaryPrefix } from '../files/temporary-names.ts';
import { bundledEnvironments, isNewEnvironmentName } from '../registry/find-environment.ts';
import { environmentFiles, type TemplateOptions } from './environment-template.ts';
import { statIfThere } from '../files/regular-file.ts';

/**
 * Writes all files or none and returns their names; never overwrites anything. Throws ConfigError for a name that is taken or has another form, and for a folder that
 * cannot be made.
 */
export function writeEnvironment({ id, directory, kind }: Omit<TemplateOptions, 'withManifest'>): string[] {
  if (!isNewEnvironmentName(id)) {
    throw new ConfigError(`The name must be lower-case words joined by hyphens, such as capital-quiz, got ${JSON.stringify(id)}`);
  }
  if (bundledEnvironments().includes(id)) throw new ConfigError(`vf-search itself has an environment ${id}; choose another name`);
  const target = resolve(directory, id);
  const taken = [id, id.replaceAll('-', '_')].map((name) => resolve(directory, name)).find((path) => existsSync(path));
  if (taken !== undefined) throw new ConfigError(`${relative('', taken) || taken} already exists; nothing was written, choose another name`);
  if (statIfThere(directory)?.isFile()) throw new ConfigError(`${directory} is a file; name a folder for the environments`);
  const files = environmentFiles({ id, directory, kind, withManifest: !isInsideClone(directory) });
  const temporary = temporaryIn(directory, id);
  try {
    // Renames an inner folder: the temporary one is readable only by this user and would stay so.
    const unfinished = join(temporary, id);
    mkdirSync(unfinished);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(unfinished, name), text);
    renameSync(unfinished, target);
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
  return Object.keys(files);
}

function temporaryIn(directory: string, id: string): string {
  try {
    makeFolder(directory);
    removeLeftOvers(join(directory, id));
    return mkdtempSync(temporaryPrefix(hidden(join(directory, id))));
  } catch (error) {
    throw placeError(error, { path: directory });
  }
}

/** True in the repository of vf-search: its environments resolve the package through the package.json above them. */
function isInsideClone(directory: string): boolean {
  for (let folder = resolve(directory); ; folder = resolve(folder, '..')) {
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest)) return realpathSync(folder) === realpathSync(packageRoot());
    if (folder === resolve(folder, '..')) return false;
  }
}
