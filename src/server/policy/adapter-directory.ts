/** Restricts the directories from which requests may load adapters. */
import { lstat, realpath } from 'node:fs/promises';
import { isAbsolute, join, sep } from 'node:path';
import { PolicyRefusal } from './policy-refusal.ts';

/** `any`: every directory of this machine. `none`: requests cannot load adapters. A list: only from under these directories, after resolving links. */
export type AdapterPlaces = 'any' | 'none' | readonly string[];

interface AdapterRequest {
  /** The adapter's name in the request. */
  readonly name: string;
  readonly places: AdapterPlaces;
  /** Names of the files that will be read. After resolving links they must be under the same places as the directory. */
  readonly files: readonly string[];
}

/**
 * Resolves a path and its links, so that the checked directory is the one that is read. Throws a refusal: 404 if it is missing, 400 if the path is not absolute, 403 if
 * it or one of its files is outside the allowed places, whether it exists or not.
 */
export async function adapterDirectory(path: string, { name, places, files }: AdapterRequest): Promise<string> {
  if (places === 'none') {
    throw new PolicyRefusal(
      403,
      'Adapters cannot be loaded by request because other machines can reach this server; start it with --allow-adapters-under DIR',
    );
  }
  if (!isAbsolute(path) || path.includes('\0')) {
    throw new PolicyRefusal(400, `Loading lora ${name} failed: lora_path must be the absolute path of a directory on the server`, {
      param: 'lora_path',
    });
  }
  const directory = await realPath(path);
  if (places !== 'any') {
    const outside = (what: string) =>
      new PolicyRefusal(403, `Loading lora ${name} failed: ${what} must be under ${places.join(' or ')} (--allow-adapters-under)`);
    if (!(await isUnder(directory, places))) throw outside('the directory');
    for (const file of files) if (await leadsOut(join(path, file), places)) throw outside(`the file ${file}`);
  }
  if (directory === null) throw new PolicyRefusal(404, `Loading lora ${name} failed: No adapter found for ${path}`);
  return directory;
}

/** Null if the path does not exist or this process may not access it. */
function realPath(path: string): Promise<string | null> {
  return realpath(path).catch(() => null);
}

/** Tells whether a file is elsewhere, or is a dangling link. The two are not distinguished, so that nothing is revealed about places outside. */
async function leadsOut(file: string, places: readonly string[]): Promise<boolean> {
  const found = await realPath(file);
  if (found !== null) return !(await isUnder(found, places));
  const about = await lstat(file).catch(() => null);
  return about?.isSymbolicLink() === true;
}

async function isUnder(path: string | null, places: readonly string[]): Promise<boolean> {
  const roots = await Promise.all(places.map(realPath));
  return roots.some((root) => path !== null && root !== null && `${path}${sep}`.startsWith(root.endsWith(sep) ? root : `${root}${sep}`));
}
