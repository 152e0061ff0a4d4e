/** Folders that appear completely or not at all. */
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { unlessDiskFull } from './disk-full.ts';
import { syncDirectory } from './json-lines.ts';
import { makeFolder } from './make-folder.ts';
import { removeLeftOvers, temporaryName } from './temporary-names.ts';

/**
 * Fills a new folder, which gets its name only once it is complete. Returns false if another process has filled that folder meanwhile, which then stays. Removes the
 * remains of killed processes that filled the same folder.
 */
export async function writeFolder(path: string, fill: (folder: string) => Promise<void>): Promise<boolean> {
  const parent = dirname(path);
  makeFolder(parent);
  removeLeftOvers(path);
  const whole = temporaryName(path);
  try {
    await mkdir(whole);
    await fill(whole);
    if (!(await isRenamed(whole, path))) return false;
  } catch (cause) {
    throw unlessDiskFull(cause, path);
  } finally {
    await rm(whole, { recursive: true, force: true });
  }
  await syncDirectory(parent);
  return true;
}

/** False if a folder that is not empty has the name. */
async function isRenamed(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    // Systems differ in the code.
    if (['ENOTEMPTY', 'EEXIST'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}
