/** The folder in which a run is scored, and its final name. */
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { journalPath, ScoreJournal, unfinishedScoring } from '../../evaluate/score-journal.ts';
import { folderProblem } from '../../files/make-folder.ts';
import { isInside } from '../../files/is-inside.ts';
import { assertOwnEntries } from '../../files/own-entries.ts';
import { placeError } from '../../files/place-error.ts';
import { realPath } from '../../files/real-path.ts';
import { hasLivingWriter, lockRun } from '../../files/run-lock.ts';
import { writeFolder } from '../../files/write-folder.ts';

/** A folder for a new run. */
export interface ScoreOutput {
  readonly path: string;
  /** The user chose the name; otherwise it gets a number if it is taken. */
  readonly isNamed: boolean;
}

/** Locked by this process. */
export interface ScorePlace {
  readonly working: string;
  readonly directory: string;
  /** Name of the lock's file. */
  readonly lock: string;
}

export interface NewRun {
  /** Digest of the scoring. */
  readonly digest: string;
  /** Puts the run into an empty folder. */
  readonly copyTo: (folder: string) => Promise<void>;
}

/** Throws ConfigError for a place inside the run, which must not change. */
export function assertOutside({ path }: ScoreOutput, run: string): void {
  const [place, folder] = [realPath(path), realPath(run)];
  if (place === folder || !isInside(folder, place)) return;
  throw new ConfigError(`The new run cannot be written to ${path}: it is inside ${run}, which stays as it is. Name another folder with -o.`);
}

/**
 * A new run gets its name once it is scored. The work of a killed process is continued if it is the same scoring. Throws ConfigError if the name that the user chose is taken,
 * also by a vf-score that runs at the same time.
 */
export async function openPlace(output: ScoreOutput, run: NewRun): Promise<ScorePlace> {
  for (let i = 1; ; i++) {
    const found = await placeAt(i === 1 ? output.path : `${output.path}-${i}`, run);
    if (typeof found !== 'string') return found;
    if (output.isNamed) throw new ConfigError(found);
  }
}

/** The place, or the reason why it is taken. Throws ConfigError if the folder cannot be written. */
async function placeAt(directory: string, { digest, copyTo }: NewRun): Promise<ScorePlace | string> {
  const isTaken = existsSync(directory);
  const working = isTaken ? directory : `${resolve(directory)}.unfinished`;
  const busy = `Another vf-score is writing to ${working}. Wait for it, or name another folder with -o.`;
  const taken = `${directory} already exists. Name another folder with -o, or score it in place.`;
  if (isTaken || existsSync(working)) {
    const begun = await unfinishedScoring(working);
    if (begun?.options === digest) {
      // Not "busy", as a lock that is refused.
      await assertOwnEntries(working);
      const lock = await lockOf(working);
      return lock === null ? busy : { working, directory, lock };
    }
    if (isTaken) return taken;
    if (await hasLivingWriter(working)) return busy;
    if (begun === null) return `${working} is not an unfinished scoring. Remove it, or name another folder with -o.`;
    return `${working} is the unfinished scoring of another run, or with another environment, rubric, weights, arguments, models or servers. Finish it with its own command, remove it, or name another folder with -o.`;
  }
  const problem = folderProblem(dirname(working));
  if (problem !== null) throw new ConfigError(`The new run cannot be written to ${directory}: ${problem}. Name another folder with -o.`);
  let lock = '';
  const isOwn = await writeFolder(working, async (folder) => {
    await copyTo(folder);
    await ScoreJournal.begin(folder, digest);
    // Locked before the folder has its name, so that no other process can lock it first.
    lock = (await lockRun(folder)).file;
  }).catch((error: unknown) => {
    throw placeError(error, { flag: '-o', path: directory });
  });
  if (!isOwn) return busy;
  if (!existsSync(directory)) return { working, directory, lock };
  // Another process has finished there in the meantime.
  await rm(working, { recursive: true, force: true });
  return taken;
}

/** Null if another process holds the lock, or has given the folder its name meanwhile. */
async function lockOf(working: string): Promise<string | null> {
  try {
    return (await lockRun(working)).file;
  } catch (error) {
    if (error instanceof ConfigError || (error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Gives the scored run its name. The journal goes last, so that the same command finishes this after a kill. */
export async function closePlace({ working, directory, lock }: ScorePlace): Promise<void> {
  if (working !== directory) await rename(working, directory);
  await rm(join(directory, lock), { force: true });
  await rm(journalPath(directory), { force: true });
}

/** Unlocks the folder of a scoring that failed, and removes it if no score had been found. */
export async function abandonPlace({ working, directory, lock }: ScorePlace): Promise<void> {
  const isKept = working === directory || (await unfinishedScoring(working))?.hasScores === true;
  await rm(isKept ? join(working, lock) : working, { recursive: true, force: true });
}
