/** The folder in which a run is scored, and the name that it has in the end. */
import { existsSync } from 'node:fs';
import { rename, rm, unlink } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { ConfigError } from '../../core/errors.ts';
import { journalPath, ScoreJournal, unfinishedScoring } from '../../evaluate/score-journal.ts';
import { folderProblem } from '../../files/make-folder.ts';
import { hasLivingWriter } from '../../files/run-lock.ts';
import { writeFolder } from '../../files/write-folder.ts';

/** A folder for a new run. */
export interface ScoreOutput {
  readonly path: string;
  /** The user chose the name; otherwise it gets a number if it is taken. */
  readonly isNamed: boolean;
}

export interface ScorePlace {
  readonly working: string;
  readonly directory: string;
}

export interface NewRun {
  /** Digest of the scoring. */
  readonly digest: string;
  /** Puts the run into an empty folder. */
  readonly copyTo: (folder: string) => Promise<void>;
}

/** A new run has its name once it is scored. What a process that was killed began goes on, if it is the same scoring. Throws ConfigError if the name is taken. */
export async function openPlace(output: ScoreOutput, { digest, copyTo }: NewRun): Promise<ScorePlace> {
  for (let i = 1; ; i++) {
    const directory = i === 1 ? output.path : `${output.path}-${i}`;
    const working = `${resolve(directory)}.unfinished`;
    const isTaken = existsSync(directory);
    const begun = await unfinishedScoring(isTaken ? directory : working);
    if (begun?.options === digest) return { working: isTaken ? directory : working, directory };
    if (!isTaken && !existsSync(working)) {
      const problem = folderProblem(dirname(working));
      if (problem !== null) throw new ConfigError(`The new run cannot be written to ${directory}: ${problem}. Name another folder with -o.`);
      await writeFolder(working, async (folder) => {
        await copyTo(folder);
        await ScoreJournal.begin(folder, digest);
      });
      return { working, directory };
    }
    if (!output.isNamed) continue;
    if (isTaken) throw new ConfigError(`${directory} already exists. Name another folder with -o, or score it in place.`);
    if (begun === null) throw new ConfigError(`${working} is not an unfinished scoring. Remove it, or name another folder with -o.`);
    throw new ConfigError(
      `${working} is the unfinished scoring of another run, or with another rubric, weights, arguments, models or servers. Finish it with its own command, remove it, or name another folder with -o.`,
    );
  }
}

/** Gives the scored run its name. The journal goes last, so that the same command finishes this after a kill. */
export async function closePlace({ working, directory }: ScorePlace): Promise<void> {
  if (working !== directory) await rename(working, directory);
  await unlink(journalPath(directory));
}

/** Removes the folder of a scoring that failed before it had found any score. */
export async function abandonPlace({ working, directory }: ScorePlace): Promise<void> {
  if (working === directory || (await hasLivingWriter(working))) return;
  if ((await unfinishedScoring(working))?.hasScores !== true) await rm(working, { recursive: true, force: true });
}
