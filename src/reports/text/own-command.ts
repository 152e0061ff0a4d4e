/** A command of this package, written so that it works in the current folder. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { IS_PUBLISHED } from '../../core/is-published.ts';
import { packageRoot } from '../../data/package-root.ts';
import { shellCommand } from './shell-text.ts';

/**
 * `npx vf-eval ...` if npx finds the command in a `node_modules` of this folder or one above, or if this folder belongs to a clone. In another package inside
 * a clone, `--prefix` points npx at the clone. Anywhere else npx would fetch whatever package owns the command's name, so the command names this package with `-p`, or
 * this installation with `--prefix` while the package is not on the registry.
 */
export function ownCommand(name: string, words: readonly string[], cwd: string = process.cwd()): string {
  return shellCommand([...launcher(name, resolve(cwd)), name, ...words]);
}

function launcher(name: string, cwd: string): string[] {
  let isNearest = true;
  for (let folder = cwd; ; folder = dirname(folder)) {
    const modules = join(folder, 'node_modules');
    if (existsSync(join(modules, '.bin', name)) || existsSync(join(modules, 'vf-search'))) return ['npx'];
    const manifest = packageName(folder);
    if (manifest === 'vf-search') return isNearest ? ['npx'] : ['npx', '--prefix', relative(cwd, folder)];
    isNearest &&= manifest === null && !existsSync(modules);
    if (folder === dirname(folder)) return IS_PUBLISHED ? ['npx', '-p', 'vf-search'] : ['npx', '--prefix', packageRoot()];
  }
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
