/** What is wrong with the files of a run that the viewer reads, one sentence for each file. Files are read by the readers that show them, and only once they have changed. */
import { lstat, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CancelledError, thrownText } from '../core/errors.ts';
import { hasLivingWriter } from '../files/run-lock.ts';
import { openInside } from './files-inside.ts';
import type { FoundRun } from './find-runs.ts';
import type { SetFile } from './rollout-sets.ts';

/** A file of the run, and the reading that finds what is wrong with it. */
export interface ExaminedFile {
  readonly name: string;
  /** Without it the run is not whole. @default false */
  readonly isNeeded?: boolean;
  /** @default it is opened, and no more */
  readonly read?: (isBeingWritten: boolean) => Promise<readonly (string | null)[]>;
}

export interface ExaminedRun {
  readonly found: FoundRun;
  readonly files: () => readonly ExaminedFile[];
  readonly sets: () => Promise<readonly SetFile[]>;
  /** The files of a set, of which the first is the rollouts. */
  readonly filesOf: (set: SetFile) => readonly ExaminedFile[];
}

export interface DamageOptions {
  /** Bytes of changed files that are read; of the others only the kind is seen. */
  readonly mostBytes: number;
  /** Examines the rollouts of a training, too. @default true */
  readonly withSets?: boolean;
  readonly signal?: AbortSignal;
}

/** Of a training: those of its sets of rollouts. */
const FOLDERS = ['rollouts', 'evaluations'] as const;

interface Known {
  /** Of the file when it was read. */
  readonly stamp: string;
  readonly problems: readonly string[];
}

export class RunDamage {
  readonly #run: ExaminedRun;
  #known = new Map<string, Known>();

  constructor(run: ExaminedRun) {
    this.#run = run;
  }

  /** The sentences. Files that were left unread for their size or number are read by later calls, as far as they fit. */
  async problems({ mostBytes, withSets = true, signal }: DamageOptions): Promise<readonly string[]> {
    const { found } = this.#run;
    const isBeingWritten = await hasLivingWriter(found.directory).catch(() => false);
    const files = [...this.#run.files()];
    if (withSets) for (const set of await this.#run.sets()) files.push(...this.#run.filesOf(set));
    const problems: string[] = [];
    for (const folder of found.kind === 'training' && withSets ? FOLDERS : []) {
      const about = await stat(join(found.directory, folder)).catch(() => null);
      if (about?.isDirectory() === false) problems.push(`${folder} is not a folder. Restore the folder.`);
    }
    const known = new Map(withSets ? [] : this.#known);
    let left = mostBytes;
    for (const file of files) {
      signal?.throwIfAborted();
      const { stamp, size } = await this.#stamp(file, isBeingWritten);
      const before = this.#known.get(file.name);
      if (before?.stamp === stamp) {
        known.set(file.name, before);
        continue;
      }
      known.delete(file.name);
      const isRead = size <= left;
      if (isRead) left -= size;
      const own = await this.#problemsOf(file, { isRead, isBeingWritten, isMissing: stamp === '' });
      if (isRead) known.set(file.name, { stamp, problems: own });
      else problems.push(...own);
    }
    this.#known = known;
    return [...new Set([...[...known.values()].flatMap((each) => each.problems), ...problems])];
  }

  async #stamp({ name }: ExaminedFile, isBeingWritten: boolean): Promise<{ readonly stamp: string; readonly size: number }> {
    const about = await lstat(join(this.#run.found.directory, name)).catch(() => null);
    if (about === null) return { stamp: '', size: 0 };
    const { dev, ino, size, mtimeMs } = about;
    return { stamp: [dev, ino, size, mtimeMs, isBeingWritten].join(':'), size };
  }

  async #problemsOf(
    { name, read, isNeeded = false }: ExaminedFile,
    { isRead, isBeingWritten, isMissing }: { readonly isRead: boolean; readonly isBeingWritten: boolean; readonly isMissing: boolean },
  ): Promise<readonly string[]> {
    if (isMissing) return isNeeded ? [`${name} is missing. Restore the file.`] : [];
    try {
      if (read !== undefined && isRead) return (await read(isBeingWritten)).filter((problem) => problem !== null);
      await (await openInside(this.#run.found.directory, name))?.close();
      return [];
    } catch (error) {
      if (error instanceof CancelledError) throw error;
      return [thrownText(error)];
    }
  }
}
