/** Directories that are there whole or not at all, through crashes and full disks. */
import { createHash } from 'node:crypto';
import { lstat, mkdir, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { thrownText, VfError } from '../../core/errors.ts';
import { syncDirectory } from '../../files/json-lines.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { EngineInputError } from '../engine-errors.ts';

export interface WrittenFile {
  readonly name: string;
  readonly bytes: number;
  /** Lower-case hex. */
  readonly sha256: string;
}

export interface DirectoryFile {
  readonly name: string;
  /** Written one after another. */
  readonly parts: readonly Uint8Array[];
}

/**
 * Writes the files to a temporary directory beside `directory`, makes them durable and renames it. `directory` must not exist. Rejects with EngineInputError where it
 * does, with VfError where it cannot be written; then nothing is left behind.
 */
export async function writeDirectory(directory: string, files: readonly DirectoryFile[]): Promise<readonly WrittenFile[]> {
  const path = resolve(directory);
  if (await isThere(path)) {
    throw new EngineInputError(`Expected a directory that does not exist yet, got ${path}; name another`, { code: 'name_taken' });
  }
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}.tmp`);
  try {
    makeFolder(dirname(path));
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary);
    const written: WrittenFile[] = [];
    for (const file of files) written.push(await writeFile(temporary, file));
    await syncDirectory(temporary);
    // Refuses a directory that holds something; an empty one that came up meanwhile is replaced.
    await rename(temporary, path);
    await syncDirectory(dirname(path));
    return written;
  } catch (cause) {
    await rm(temporary, { recursive: true, force: true }).catch(() => {});
    throw new VfError(`Expected to write ${path}, got ${thrownText(cause)}; nothing was left behind`, { cause });
  }
}

/** A link that leads nowhere is there too. */
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
