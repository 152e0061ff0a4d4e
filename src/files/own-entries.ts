/**
 * What a command writes, replaces and removes below the folder of a run stays below it: a run that a stranger packed may hold links to the user's other files, and pipes for
 * which a write would wait. Not checked: the folder itself, which users link to a larger disk, and below it hidden names and `node_modules`, which no command writes into.
 */
import type { Dirent } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { otherKind } from './regular-file.ts';

/** Rejects with ConfigError for a link, a pipe, a socket or a device anywhere below `directory`. Follows no link below it, and changes nothing. */
export async function assertOwnEntries(directory: string): Promise<void> {
  for (const entry of await entriesIn(directory)) {
    if (entry.name.startsWith('.') || entry.name === 'node_modules') continue;
    const path = join(directory, entry.name);
    const remedy = 'run the command again';
    if (entry.isSymbolicLink())
      throw new ConfigError(
        `${path} is a link, through which files outside ${directory} could be changed or deleted; nothing was written. Replace it by a copy of what it leads to, then ${remedy}. Only the folder of a run as a whole may be a link.`,
      );
    const kind = otherKind(entry);
    if (kind !== null) throw new ConfigError(`${path} is ${kind}, not a file; nothing was written. Remove it, then ${remedy}.`);
    if (entry.isDirectory()) await assertOwnEntries(path);
  }
}

/** None in a folder that is gone, as after a process that has just ended, or that cannot be read: who writes there gets the system's error. */
function entriesIn(directory: string): Promise<readonly Dirent[]> {
  return readdir(directory, { withFileTypes: true }).catch(() => []);
}
