/** Commands and paths, written so that they work in the current folder. */
import { existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { jsonObjectAt } from '../../files/json-file.ts';
import { packageRoot } from '../../data/package-root.ts';
import { redactUrl } from '../../transport/redact.ts';
import { transportSettings } from '../../transport/transport-settings.ts';
import { escapeControls } from './terminal-text.ts';

/** A command to suggest, with its purpose. */
export interface NextCommand {
  readonly why: string;
  readonly command: string;
}

/**
 * `npx vf-eval ...` if npx finds the command in a `node_modules` of this folder or one above, or if this folder belongs to a clone. In another package inside
 * a clone, `--prefix` points npx at the clone. Anywhere else npx would fetch whatever package owns the command's name, so the command is the one that was run: its bare name
 * if the PATH leads to this installation, else its file.
 */
export function ownCommand(
  name: string,
  words: readonly string[],
  {
    cwd = process.cwd(),
    root = packageRoot(),
    path = transportSettings().variables['PATH'] ?? '',
  }: { readonly cwd?: string; readonly root?: string; readonly path?: string } = {},
): string {
  const script = join(root, 'bin', `${name}.js`);
  const launcher = underNpx(name, resolve(cwd)) ?? (isOnPath(name, script, path) ? [name] : ['node', script]);
  return shellCommand([...launcher, ...words]);
}

/**
 * Joins arguments into a shell command, with quotes only around arguments that need them. Secrets of URLs are hidden before the quotes are there, which they could take along.
 * An argument with characters that a terminal acts on is written as `$'...'`, which bash, zsh and ksh read back as the same argument.
 */
export function shellCommand(words: readonly string[]): string {
  return words.map((word) => shellWord(redactUrl(word))).join(' ');
}

function shellWord(word: string): string {
  if (/^[\w@%+=:,./^-]+$/.test(word)) return word;
  if (escapeControls(word) === word) return `'${word.replaceAll("'", `'\\''`)}'`;
  return `$'${Array.from(word, dollarQuoted).join('')}'`;
}

/** One character between the quotes of `$'...'`. */
function dollarQuoted(char: string): string {
  if (char === '\\' || char === "'") return `\\${char}`;
  return escapeControls(char)
    .replace(/^\\u\{([\da-f]+)\}$/, (_, code: string) => `\\U${code.padStart(8, '0')}`)
    .replace(/^\\x([89][\da-f]|ad)$/, '\\u00$1');
}

/** The path relative to the working directory if it is inside it, otherwise unchanged. */
export function displayPath(path: string): string {
  return escapeControls(nearbyPath(path));
}

/** As `displayPath`, for a word of a command, which `shellCommand` escapes. */
export function nearbyPath(path: string): string {
  const near = relative(process.cwd(), path);
  return near === '' ? '.' : near.startsWith('..') || isAbsolute(near) ? path : near;
}

/** The words without these options and their values, written as `--name value`, `--name=value`, `-n value` or `-nvalue`. */
export function withoutOptions(words: readonly string[], names: readonly string[]): string[] {
  const isOption = (word: string) => names.some((name) => word === name || word.startsWith(name.startsWith('--') ? `${name}=` : name));
  return words.filter((word, i) => !isOption(word) && !names.includes(words[i - 1] ?? ''));
}

/** Null if npx would not find the command here. */
function underNpx(name: string, cwd: string): string[] | null {
  let isNearest = true;
  for (let folder = cwd; ; folder = dirname(folder)) {
    const modules = join(folder, 'node_modules');
    if (existsSync(join(modules, '.bin', name))) return ['npx', name];
    const manifest = packageName(folder);
    if (manifest === 'vf-search') return isNearest ? ['npx', name] : ['npx', '--prefix', relative(cwd, folder), name];
    isNearest &&= manifest === null && !existsSync(modules);
    if (folder === dirname(folder)) return null;
  }
}

/** Tells whether the bare name runs this script: whether the first file of that name on the PATH leads to it. */
function isOnPath(name: string, script: string, path: string): boolean {
  const found = path
    .split(delimiter)
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
    .find((file) => existsSync(file));
  return found !== undefined && existsSync(script) && realpathSync(found) === realpathSync(script);
}

/** Null if there is no package.json; empty if it has no readable name. */
function packageName(folder: string): string | null {
  const path = join(folder, 'package.json');
  if (!existsSync(path)) return null;
  const name = jsonObjectAt(path)?.['name'];
  return typeof name === 'string' ? name : '';
}
