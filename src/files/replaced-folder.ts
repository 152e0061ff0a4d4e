/** A folder that replaces another of its name in two renames, between which a process may be killed. */
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { hidden, leftOvers, temporaryPrefix } from './temporary-names.ts';

/** The new folder, in the temporary one. */
export const REPLACING = 'index';
/** The folder that it replaces. */
const REPLACED = 'old';
/** Both kinds of index write it last. */
const MANIFEST = 'manifest.json';

/** Gives the new folder in `temporary` the name `target`, and removes `temporary` with the folder that had the name. */
export function putInPlace(temporary: string, target: string): void {
  if (existsSync(target)) renameSync(target, join(temporary, REPLACED));
  renameSync(join(temporary, REPLACING), target);
  rmSync(temporary, { recursive: true, force: true });
}

/** Replaces `target` by the folder `made` next to it. If the system refuses, both stay. */
export function replaceFolder(made: string, target: string): void {
  const temporary = mkdtempSync(temporaryPrefix(hidden(target)));
  const replacing = join(temporary, REPLACING);
  try {
    renameSync(made, replacing);
    putInPlace(temporary, target);
  } catch (error) {
    if (existsSync(replacing)) renameSync(replacing, made);
    if (!existsSync(join(temporary, REPLACED))) rmSync(temporary, { recursive: true, force: true });
    throw error;
  }
}

/** A process that was killed after it had moved the old index away, and before the new one had its name, left neither there: puts the new one, which is whole, in its place. */
export function finishReplacement(path: string): void {
  const target = resolve(path);
  if (existsSync(target)) return;
  const left = leftOvers(target).find((each) => existsSync(join(each, REPLACED)) && existsSync(join(each, REPLACING, MANIFEST)));
  if (left !== undefined) renameSync(join(left, REPLACING), target);
}
