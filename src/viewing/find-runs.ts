/** Finds runs of `vf-eval` and `vf-train` below a folder. A run is recognised by its files, not by the names of folders. */
import { existsSync } from 'node:fs';
import { readdir, realpath } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
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

/** The runs below `root` by their ids. Links are not followed, and folders that cannot be read are left out. */
export async function findRuns(root: string): Promise<FoundRun[]> {
  const top = await realpath(root).catch(() => root);
  const runs: FoundRun[] = [];
  let folders = 0;
  const visit = async (directory: string, level: number): Promise<void> => {
    if (++folders > MOST_FOLDERS) return;
    const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
    const kind = kindOf(new Set(entries.filter((entry) => entry.isFile()).map(({ name }) => name)));
    if (kind !== null) {
      runs.push({ id: idOf(top, directory), kind, directory });
      return;
    }
    if (level === MOST_LEVELS) return;
    for (const entry of entries)
      if (entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules') await visit(join(directory, entry.name), level + 1);
  };
  await visit(top, 0);
  return runs.toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

/** True if the folder is that of a run. */
export function isRunFolder(directory: string): boolean {
  return kindOf({ has: (name) => existsSync(join(directory, name)) }) !== null;
}

function kindOf(files: Pick<ReadonlySet<string>, 'has'>): RunKind | null {
  if (files.has('metadata.json') && files.has('results.jsonl')) return 'evaluation';
  return files.has('run.json') && files.has('config.toml') ? 'training' : null;
}

function idOf(root: string, directory: string): string {
  const path = relative(root, directory);
  return path === '' ? '.' : path.split(sep).join('/');
}
