/** Finds runs of `vf-eval` and `vf-train` below a folder. A run is recognised by the names in its folder, also where one leads to something other than a file, or is lost. */
import { existsSync } from 'node:fs';
import { readdir, realpath } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { countText } from '../core/count-text.ts';
import { thrownText } from '../core/errors.ts';
import { errnoText } from '../files/errno-text.ts';
import type { RunKind } from './view-wire.ts';

export interface FoundRun {
  /** Its folder relative to the searched one, with `/`; `.` for that folder itself. */
  readonly id: string;
  readonly kind: RunKind;
  /** Without links when it was found: a link in its place later leads elsewhere. */
  readonly directory: string;
}

/** Runs lie a few folders deep; runs of rounds some deeper. */
const MOST_LEVELS = 10;
/** More folders than a folder of runs has. */
const MOST_FOLDERS = 50_000;

export interface FoundRuns {
  /** By their ids. */
  readonly runs: readonly FoundRun[];
  /** What could not be searched, one line each. */
  readonly unread: readonly string[];
}

/** The runs below `root`. Links are not followed. */
export async function findRuns(root: string): Promise<FoundRuns> {
  const top = await realpath(root).catch(() => root);
  const runs: FoundRun[] = [];
  const unread: string[] = [];
  let folders = 0;
  const visit = async (directory: string, level: number): Promise<void> => {
    if (++folders > MOST_FOLDERS) return;
    const entries = await readdir(directory, { withFileTypes: true }).catch((error: unknown) => {
      const why = unreadText(error);
      if (why !== null) unread.push(`${idOf(top, directory)} cannot be read, so no run in it is listed: ${why}`);
      return [];
    });
    const kind = kindOf(new Set(entries.map(({ name }) => name)));
    if (kind !== null) {
      runs.push({ id: idOf(top, directory), kind, directory });
      return;
    }
    if (level === MOST_LEVELS) return;
    for (const entry of entries)
      if (entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules') await visit(join(directory, entry.name), level + 1);
  };
  await visit(top, 0);
  if (folders > MOST_FOLDERS)
    unread.push(`Only the first ${countText(MOST_FOLDERS)} folders were searched. Open a folder further down to see the runs in the others`);
  return { runs: runs.toSorted((a, b) => (a.id < b.id ? -1 : 1)), unread };
}

/** Null for a folder that was removed meanwhile. */
function unreadText(error: unknown): string | null {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ENOTDIR') return null;
  // The page and its exports name no path on this machine.
  return errnoText(error) ?? thrownText(error);
}

/** True if the folder is that of a run. */
export function isRunFolder(directory: string): boolean {
  return kindOf({ has: (name) => existsSync(join(directory, name)) }) !== null;
}

/** Of each kind of run: files that it needs, and others with which one of these is enough. */
const MARKS = {
  evaluation: { needed: ['metadata.json', 'results.jsonl'], others: ['tokens.jsonl', 'played.jsonl'] },
  training: { needed: ['run.json', 'config.toml'], others: ['metrics.jsonl', 'checkpoints'] },
} as const;

function kindOf(files: Pick<ReadonlySet<string>, 'has'>): RunKind | null {
  const isRun = ({ needed, others }: (typeof MARKS)[RunKind]) => {
    const found = needed.filter((name) => files.has(name)).length;
    return found === needed.length || (found > 0 && others.some((name) => files.has(name)));
  };
  if (isRun(MARKS.evaluation)) return 'evaluation';
  return isRun(MARKS.training) ? 'training' : null;
}

function idOf(root: string, directory: string): string {
  const path = relative(root, directory);
  return path === '' ? '.' : path.split(sep).join('/');
}
