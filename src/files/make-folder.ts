import { accessSync, constants, mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { statIfThere } from './regular-file.ts';

/**
 * Creates a folder and its parents, if they are missing; those that it made, the deepest first. Throws the system's error. Replaces mkdir's `recursive`, which never returns on a file
 * system that cannot create folders and reports the path as missing (`/proc`).
 */
export function makeFolder(path: string): readonly string[] {
  const folder = resolve(path);
  try {
    return makeOne(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(folder) === folder) throw error;
    const parents = makeFolder(dirname(folder));
    return [...makeOne(folder), ...parents];
  }
}

/** None if it is there. */
function makeOne(folder: string): readonly string[] {
  try {
    mkdirSync(folder);
    return [folder];
  } catch (error) {
    if (statIfThere(folder)?.isDirectory() !== true) throw error;
    return [];
  }
}

/** The reason why files cannot be written into a folder, which may have to be created; null if they can. Creates nothing. */
export function folderProblem(path: string): string | null {
  let folder = resolve(path);
  try {
    let found = statSync(folder, { throwIfNoEntry: false });
    while (found === undefined && dirname(folder) !== folder) {
      folder = dirname(folder);
      found = statSync(folder, { throwIfNoEntry: false });
    }
    if (found?.isDirectory() !== true) return `${folder} is not a folder`;
    accessSync(folder, constants.W_OK | constants.X_OK);
    return null;
  } catch (error) {
    return `${folder} is not writable (${(error as NodeJS.ErrnoException).code ?? String(error)})`;
  }
}
