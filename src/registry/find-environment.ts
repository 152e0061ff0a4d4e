/**
 * Finds the files of an environment from its id or path. The search order is `./environments/<id>`, the environments of this package, then `<id>`,
 * `vf-<id>` and `@scope/<id>` in node_modules, from the working directory upwards; `-` and `_` are interchangeable.
 */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { basename, dirname, extname, isAbsolute, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readJsonFileSync } from '../files/json-file.ts';
import { otherKind, readRegularFileSync, statIfThere } from '../files/regular-file.ts';
import { suggestion } from '../core/closest-name.ts';
import { ConfigError } from '../core/errors.ts';
import { packageRoot } from '../data/package-root.ts';
import { type EnvironmentDescription, parseEnvironmentDescription } from '../schemas/environment-description.ts';

export interface FoundEnvironment {
  /** As given by the user; for a path, the name of its folder. */
  readonly id: string;
  readonly folder: string;
  /** Absolute path of the module to import. */
  readonly entry: string;
  readonly description: EnvironmentDescription;
  /** True for the environments that come with this package. */
  readonly isBundled: boolean;
}

export interface FindEnvironmentOptions {
  /** @default environments, in the working directory */
  readonly environmentsDir?: string;
  /** @default the working directory of the process */
  readonly workingDirectory?: string;
}

/** `.js` if the package runs compiled, `.ts` if it runs from its sources. */
export const OWN_EXTENSION = extname(fileURLToPath(import.meta.url));

const ENTRY_NAMES = ['environment.ts', 'environment.mts', 'environment.js', 'environment.mjs'];
const ID = /^(@[a-z0-9][\w.-]*\/)?[A-Za-z0-9][\w.-]*$/;

/** Throws a ConfigError that lists where it searched and which environments exist. */
export function findEnvironment(id: string, options: FindEnvironmentOptions = {}): FoundEnvironment {
  const workingDirectory = options.workingDirectory ?? process.cwd();
  if (id.startsWith('file:')) return openPath(pathOfUrl(id));
  if (isEnvironmentPath(id, workingDirectory)) return openPath(resolve(workingDirectory, id));
  if (!ID.test(id)) throw new ConfigError(`${JSON.stringify(id)} is neither the id of an environment, such as search-r1, nor a path that exists`);
  const local = resolve(workingDirectory, options.environmentsDir ?? 'environments');
  const bundled = bundledEnvironments().find((name) => normalized(name) === normalized(id));
  const candidates = [id.startsWith('@') ? null : matchingFolder(local, id), bundled === undefined ? null : bundledFolder(bundled)].filter(
    (folder) => folder !== null,
  );
  const found = candidates.find(isEnvironment) ?? findInstalled(id, workingDirectory) ?? candidates[0];
  if (found !== undefined) return openFolder(id, found);
  throw unknownEnvironment(id, { local, workingDirectory });
}

/** As `findEnvironment`, but null for an environment that cannot be found. */
export function environmentIfFound(id: string, options: FindEnvironmentOptions = {}): FoundEnvironment | null {
  try {
    return findEnvironment(id, options);
  } catch (error) {
    if (error instanceof ConfigError) return null;
    throw error;
  }
}

/** Tells whether it names an environment by the path of its folder or module rather than by its id. */
export function isEnvironmentPath(id: string, workingDirectory: string = process.cwd()): boolean {
  if (id.startsWith('file:') || /^\.{1,2}([/\\]|$)/.test(id) || isAbsolute(id)) return true;
  const exists = existsSync(resolve(workingDirectory, id));
  const isNested = id.includes('/') && !id.startsWith('@');
  return /\.[mc]?[jt]s$/.test(id) ? exists || isNested : exists && isNested;
}

function pathOfUrl(url: string): string {
  try {
    return fileURLToPath(url);
  } catch (cause) {
    throw new ConfigError(`${JSON.stringify(url)} is not a URL such as file:///folder/environment.ts: ${(cause as Error).message}`, { cause });
  }
}

function openPath(path: string): FoundEnvironment {
  if (path.includes('\0')) throw new ConfigError(`The path of the environment contains a NUL: ${JSON.stringify(path)}`);
  const found = statIfThere(path);
  if (found === undefined) throw new ConfigError(`${path} does not exist. Name an environment by its id, or by the path of its folder or module.`);
  if (found.isDirectory()) return openFolder(basename(path), path);
  const folder = dirname(path);
  return { id: basename(folder), folder, entry: path, description: describe(folder), isBundled: isBundledFolder(folder) };
}

function openFolder(id: string, given: string): FoundEnvironment {
  const isBundled = isBundledFolder(given);
  const folder = isBundled ? bundledFolder(basename(given)) : given;
  const description = describe(folder);
  const entry = entryIn(folder, description);
  if (entry === null) {
    throw new ConfigError(`${folder} contains no environment: no ${ENTRY_NAMES.join(', ')}, and no entry under "verifiers" in its package.json`);
  }
  return { id, folder, entry, description, isBundled };
}

/** The entry module. An entry in package.json must be inside the folder; the entry of a bundled environment may be compiled. */
function entryIn(folder: string, description: EnvironmentDescription): string | null {
  if (description.entry === undefined) {
    const name = ENTRY_NAMES.find((candidate) => existsSync(join(folder, candidate)));
    return name === undefined ? null : join(folder, name);
  }
  const entry = resolve(folder, description.entry);
  const inside = relative(folder, entry);
  if (inside.startsWith('..') || isAbsolute(inside))
    throw new ConfigError(`The entry of ${folder} must be inside that folder, got ${description.entry}`);
  if (existsSync(entry)) return entry;
  const compiled = entry.replace(/\.ts$/, '.js');
  if (isBundledFolder(folder) && existsSync(compiled)) return compiled;
  throw new ConfigError(`The entry ${description.entry} of the environment in ${folder} does not exist`);
}

function describe(folder: string): EnvironmentDescription {
  const path = join(folder, 'package.json');
  if (!existsSync(path)) return {};
  const parsed = parseEnvironmentDescription(readJsonFileSync(path));
  if (!parsed.ok) throw new ConfigError(`"verifiers" in ${path} does not describe an environment: ${parsed.problem}`);
  return parsed.description;
}

/** Ids of the environments that come with this package, from the exports in its package.json. */
export function bundledEnvironments(): readonly string[] {
  const { exports } = JSON.parse(readRegularFileSync(join(packageRoot(), 'package.json'))) as { exports: Record<string, unknown> };
  return Object.keys(exports).flatMap((path) => /^\.\/environments\/([\w-]+)$/.exec(path)?.[1] ?? []);
}

/** The compiled modules, or the sources if the package itself runs from its sources. */
function bundledFolder(name: string): string {
  return join(packageRoot(), OWN_EXTENSION === '.ts' ? '' : 'dist', 'environments', name);
}

/** True for the sources too: in a clone, `./environments` contains those of the bundled environments. */
function isBundledFolder(folder: string): boolean {
  if (!bundledEnvironments().includes(basename(folder)) || !existsSync(folder)) return false;
  const sources = join(packageRoot(), 'environments', basename(folder));
  return [sources, bundledFolder(basename(folder))].some((path) => existsSync(path) && realpathSync(path) === realpathSync(folder));
}

function findInstalled(id: string, workingDirectory: string): string | null {
  const [scope, name] = id.startsWith('@') ? (id.split('/') as [string, string]) : [null, id];
  for (let folder = workingDirectory; ; folder = dirname(folder)) {
    const modules = join(folder, 'node_modules');
    if (scope === null) {
      for (const wanted of [name, `vf-${name}`]) {
        const found = matchingFolder(modules, wanted);
        if (found !== null && isEnvironment(found)) return found;
      }
    }
    const scopes = list(modules).filter((entry) => (scope === null ? entry.startsWith('@') : entry === scope));
    const scoped = scopes.map((s) => matchingFolder(join(modules, s), name)).filter((path) => path !== null && isEnvironment(path));
    if (scoped.length > 1) throw new ConfigError(`Several environments are called ${id}: ${scoped.join(' and ')}. Name it with its scope.`);
    if (scoped[0]) return scoped[0];
    if (folder === dirname(folder)) return null;
  }
}

/** A package is an environment only if it declares one or has an entry file. */
function isEnvironment(folder: string): boolean {
  if (ENTRY_NAMES.some((name) => existsSync(join(folder, name)))) return true;
  const manifest = join(folder, 'package.json');
  return existsSync(manifest) && readRegularFileSync(manifest).includes('"verifiers"');
}

/** The subfolder with the name `id`, `-` and `_` being interchangeable; null if there is none. */
function matchingFolder(parent: string, id: string): string | null {
  if (existsSync(join(parent, id))) return join(parent, id);
  const name = list(parent).find((entry) => normalized(entry) === normalized(id));
  return name === undefined ? null : join(parent, name);
}

function normalized(id: string): string {
  return id.replaceAll('_', '-');
}

/** Names in a folder, sorted; none if it is not a folder. */
function list(folder: string): string[] {
  return isFolder(folder) ? readdirSync(folder).toSorted() : [];
}

/** False for a broken link too. */
function isFolder(path: string): boolean {
  return statIfThere(path)?.isDirectory() ?? false;
}

function environmentsIn(folder: string): string[] {
  return list(folder).filter((name) => isFolder(join(folder, name)) && isEnvironment(join(folder, name)));
}

/** True for a name that `vf-init` takes. */
export function isNewEnvironmentName(id: string): boolean {
  return /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(id) && id.length <= 64;
}

/** Mentions a file of that name in the working directory, because a path may be meant. Empty if there is none. */
function hereText(id: string, workingDirectory: string): string {
  const about = statIfThere(join(workingDirectory, id));
  if (about === undefined) return '';
  const kind = otherKind(about);
  return kind === null ? `. To load ./${id}, which exists, write ./${id}` : `. ./${id} exists, but it is ${kind}, which cannot be loaded`;
}

function unknownEnvironment(id: string, { local, workingDirectory }: { readonly local: string; readonly workingDirectory: string }): ConfigError {
  const known = [...new Set([...environmentsIn(local), ...bundledEnvironments()])];
  const creates = isNewEnvironmentName(id) ? `. \`vf-init ${id}\` creates a new one` : '';
  return new ConfigError(
    `The environment ${JSON.stringify(id)} is unknown; looked for ${join(local, id)}, the environments of vf-search, and ` +
      `${id}, vf-${id} or @scope/${id} in node_modules${hereText(id, workingDirectory)}; known are ${known.join(', ')}${suggestion(id, known)}${creates}`,
  );
}
