/** Commands and paths, written so that they work in the current folder. */
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { IS_PUBLISHED } from '../../core/is-published.ts';
import { packageRoot } from '../../data/package-root.ts';
import { escapeControls } from './terminal-text.ts';

/** A command to suggest, with its purpose. */
export interface NextCommand {
  readonly why: string;
  readonly command: string;
}

/**
 * `npx vf-eval ...` if npx finds the command in a `node_modules` of this folder or one above, or if this folder belongs to a clone. In another package inside
 * a clone, `--prefix` points npx at the clone. Anywhere else npx would fetch whatever package owns the command's name, so the command names this package with `-p`, or
 * this installation with `--prefix` while the package is not on the registry.
 */
export function ownCommand(
  name: string,
  words: readonly string[],
  { cwd = process.cwd(), root = packageRoot() }: { readonly cwd?: string; readonly root?: string } = {},
): string {
  return shellCommand([...launcher(name, resolve(cwd), root), name, ...words]);
}

/** Joins arguments into a POSIX shell command, with quotes only around arguments that need them. */
export function shellCommand(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./^-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(' ');
}

/** The path relative to the working directory if it is inside it, otherwise unchanged. */
export function displayPath(path: string): string {
  const near = relative(process.cwd(), path);
  return escapeControls(near === '' ? '.' : near.startsWith('..') || isAbsolute(near) ? path : near);
}

/** The words without these options and their values, written as `--name value`, `--name=value`, `-n value` or `-nvalue`. */
export function withoutOptions(words: readonly string[], names: readonly string[]): string[] {
  const isOption = (word: string) => names.some((name) => word === name || word.startsWith(name.startsWith('--') ? `${name}=` : name));
  return words.filter((word, i) => !isOption(word) && !names.includes(words[i - 1] ?? ''));
}

function launcher(name: string, cwd: string, root: string): string[] {
  let isNearest = true;
  for (let folder = cwd; ; folder = dirname(folder)) {
    const modules = join(folder, 'node_modules');
    if (existsSync(join(modules, '.bin', name)) || existsSync(join(modules, 'vf-search'))) return ['npx'];
    const manifest = packageName(folder);
    if (manifest === 'vf-search') return isNearest ? ['npx'] : ['npx', '--prefix', relative(cwd, folder)];
    isNearest &&= manifest === null && !existsSync(modules);
    if (folder === dirname(folder)) return IS_PUBLISHED ? ['npx', '-p', 'vf-search'] : ['npx', '--prefix', prefixOf(root, name)];
  }
}

/** The folder in which npx finds the command: the package itself in a clone; for a package in `node_modules`, the project that installed it. */
function prefixOf(root: string, name: string): string {
  if (basename(dirname(root)) !== 'node_modules') return root;
  const project = dirname(dirname(root));
  // pnpm keeps packages in folders inside the project's node_modules.
  for (let folder = project; folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, 'node_modules', '.bin', name))) return folder;
  }
  return project;
}

/** Null if there is no package.json; empty if it has no readable name. */
function packageName(folder: string): string | null {
  const path = join(folder, 'package.json');
  if (!existsSync(path)) return null;
  try {
    const { name } = JSON.parse(readFileSync(path, 'utf8')) as { readonly name?: unknown };
    return typeof name === 'string' ? name : '';
  } catch {
    return '';
  }
}
