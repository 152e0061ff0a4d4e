/**
 * The names under which files and folders are written before they get their own: `NAME.PID.tmp` next to them, or hidden, `.NAME.PID.tmp`. Six random characters may follow, so
 * that one process can write the same NAME twice at a time. A killed process leaves them; the next one that writes NAME removes them.
 */
import { lstatSync, readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

const END = /^\.(\d+)\.tmp(-\w{6})?$/;

export interface LeftOverOptions {
  /** Milliseconds. Only what has not changed for this long is removed, where processes of other machines may write to the same folder. @default 0 */
  readonly restMs?: number;
}

export function temporaryName(path: string): string {
  return `${path}.${process.pid}.tmp`;
}

/** For `mkdtemp`. */
export function temporaryPrefix(path: string): string {
  return `${temporaryName(path)}-`;
}

export function hidden(path: string): string {
  return join(dirname(path), `.${basename(path)}`);
}

/** Removes what killed processes left of a file or folder that was to be written at `path`; nothing where the folder cannot be listed. */
export function removeLeftOvers(path: string, { restMs = 0 }: LeftOverOptions = {}): void {
  for (const left of leftOvers(path)) if (isAtRest(left, restMs)) rmSync(left, { recursive: true, force: true });
}

/** Paths of what killed processes left of a file or folder that was to be written at `path`. */
export function leftOvers(path: string): readonly string[] {
  const parent = dirname(path);
  return listedIn(parent)
    .filter((name) => isLeftOver(name, basename(path)))
    .map((name) => join(parent, name));
}

/** Some folders may be written to and not listed. */
function listedIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** A living process may still be writing. Of this process, only a name without random characters is that of an earlier one with the same id. */
function isLeftOver(name: string, of: string): boolean {
  const start = [of, `.${of}`].find((each) => name.startsWith(`${each}.`));
  const [, pid, random] = (start !== undefined && END.exec(name.slice(start.length))) || [];
  if (pid === undefined) return false;
  return Number(pid) === process.pid ? random === undefined : !isAlive(Number(pid));
}

function isAtRest(path: string, restMs: number): boolean {
  const changed = lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return restMs === 0 || changed < Date.now() - restMs;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
