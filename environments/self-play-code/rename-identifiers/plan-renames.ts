/**
 * The changes that renaming makes in a folder, of contents and paths. Reads files and changes nothing; never follows a link, never looks into `.git` or
 * `node_modules`.
 */
import { isUtf8 } from 'node:buffer';
import { accessSync, constants, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { IdentifierRenamer } from './mapping.ts';

/** Paths are relative to the folder. */
export interface RenamePlan {
  readonly changes: readonly { readonly path: string; readonly text: string; readonly count: number }[];
  /** Deepest first, so that each `from` still exists when it is reached; `to` differs from it in the last part alone. */
  readonly renames: readonly { readonly from: string; readonly to: string }[];
  /** Old names that stay, with their place after the renaming: a line of a file, a path, a link. */
  readonly leftovers: readonly { readonly place: string; readonly text: string }[];
  /** Files that are not text in UTF-8, which keep their contents. */
  readonly binary: readonly string[];
  /** The reason why the plan cannot be carried out; null if it can. */
  readonly problem: string | null;
}

const LEFT_ALONE = new Set(['.git', 'node_modules']);
/** A larger file is data. */
const MOST_BYTES = 64 * 2 ** 20;

export function planRenames(folder: string, renamer: IdentifierRenamer): RenamePlan {
  const changes: { path: string; text: string; count: number }[] = [];
  const renames: { from: string; to: string }[] = [];
  const leftovers: { place: string; text: string }[] = [];
  const binary: string[] = [];
  let problem: string | null = null;

  const readFile = (path: string, place: string) => {
    const text = textOf(join(folder, path));
    if (text === null) {
      binary.push(path);
      return;
    }
    const renamed = renamer.rename(text);
    if (renamed.count > 0) {
      changes.push({ path, ...renamed });
      if (!isWritable(join(folder, path))) problem ??= `${path} cannot be written. Give yourself the permission, or leave the file out`;
    }
    for (const [i, line] of renamed.text.split('\n').entries()) {
      if (renamer.remaining(line) !== null) leftovers.push({ place: `${place}:${i + 1}`, text: line.trim().slice(0, 120) });
    }
  };

  const visit = (inside: string, placeInside: string) => {
    const entries = readdirSync(join(folder, inside), { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const taken = new Map<string, string>();
    for (const entry of entries) {
      if (LEFT_ALONE.has(entry.name)) continue;
      const path = join(inside, entry.name);
      // The target of a link may be renamed or may lie elsewhere: both are for a person to decide.
      const name = entry.isSymbolicLink() ? entry.name : renamer.rename(entry.name).text;
      const place = join(placeInside, name);
      const other = taken.get(name);
      if (other !== undefined) problem ??= `${other} and ${path} would both be named ${place}. Rename one of them first`;
      taken.set(name, path);
      if (renamer.remaining(name) !== null) leftovers.push({ place, text: 'in its name' });
      if (entry.isSymbolicLink()) {
        const target = readlinkSync(join(folder, path));
        if (renamer.remaining(target) !== null) leftovers.push({ place, text: `a link to ${target}` });
      } else if (entry.isDirectory()) visit(path, place);
      else if (entry.isFile()) readFile(path, place);
      if (name !== entry.name) renames.push({ from: path, to: join(dirname(path), name) });
    }
  };
  visit('', '');
  return { changes, renames, leftovers, binary, problem };
}

/** Null for a file that is not text. */
function textOf(path: string): string | null {
  if (statSync(path).size > MOST_BYTES) return null;
  const bytes = readFileSync(path);
  return bytes.includes(0) || !isUtf8(bytes) ? null : bytes.toString('utf8');
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** `from → to`, with the unchanged folder once. */
export function renameText({ from, to }: { readonly from: string; readonly to: string }): string {
  return `${from} → ${basename(to)}`;
}
