/** Writes directories that are complete or absent, even after a crash or on a full disk. */
import { createHash } from 'node:crypto';
import { lstat, mkdir, open, rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { VfError } from '../../core/errors.ts';
import { isDiskFull } from '../../files/disk-full.ts';
import { syncDirectory } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { hidden, removeLeftOvers, temporaryName } from '../../files/temporary-names.ts';
import { EngineInputError } from '../engine-errors.ts';
import { systemText } from '../../files/system-text.ts';

export interface WrittenFile {
  readonly name: string;
  readonly bytes: number;
  /** Lower-case hex. */
  readonly sha256: string;
}

export interface DirectoryFile {
  readonly name: string;
  /** Contents, in order. */
  readonly parts: readonly Uint8Array[];
}

/**
 * Writes the files to a temporary directory next to `directory`, syncs them to disk and renames it. Rejects with EngineInputError if `directory` exists, with VfError
 * if it cannot be written; then nothing is left behind.
 */
export async function writeDirectory(directory: string, files: readonly DirectoryFile[]): Promise<readonly WrittenFile[]> {
  const path = resolve(directory);
  if (await isThere(path)) {
    throw new EngineInputError(`The directory ${path} already exists. Choose another.`, { code: 'name_taken' });
  }
  const temporary = temporaryName(hidden(path));
  try {
    makeFolder(dirname(path));
    removeLeftOvers(path);
    await mkdir(temporary);
    const written: WrittenFile[] = [];
    for (const file of files) written.push(await writeFile(temporary, file));
    await syncDirectory(temporary);
    // Fails for a non-empty directory; replaces an empty one that was created meanwhile.
    await rename(temporary, path);
    await syncDirectory(dirname(path));
    return written;
  } catch (cause) {
    await rm(temporary, { recursive: true, force: true }).catch(() => {});
    const why = isDiskFull(cause) ? 'the disk is full. Free some space' : systemText(cause);
    throw new VfError(`Could not write ${path}: ${why}; nothing was left behind`, { cause });
  }
}

/** A broken link counts as existing. */
function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

async function writeFile(folder: string, { name, parts }: DirectoryFile): Promise<WrittenFile> {
  const hash = createHash('sha256');
  await using file = await open(join(folder, name), 'wx');
  for (const part of parts) {
    hash.update(part);
    await file.appendFile(part);
  }
  await file.sync();
  return { name, bytes: parts.reduce((sum, part) => sum + part.length, 0), sha256: hash.digest('hex') };
}
