/** Which directories requests may load adapters from. */
import { lstat, realpath } from 'node:fs/promises';
import { isAbsolute, join, sep } from 'node:path';
import { PolicyRefusal } from './policy-refusal.ts';

/** `any`: every directory of this machine. `none`: no request may load one. A list: from under these alone, links followed. */
export type AdapterPlaces = 'any' | 'none' | readonly string[];

interface AdapterRequest {
  /** As the request calls the adapter. */
  readonly name: string;
  readonly places: AdapterPlaces;
  /** Those of the directory that will be read: with links followed they must lie under the same places. */
  readonly files: readonly string[];
}

/**
 * The directory that a path leads to, without links, so that what was checked is what is read. Throws a refusal: 404 where nothing is there, 400 where the path is
 * not absolute, 403 where it or one of its files leads elsewhere, which is all that is told of a place outside.
 */
export async function adapterDirectory(path: string, { name, places, files }: AdapterRequest): Promise<string> {
  if (places === 'none') {
    throw new PolicyRefusal(
      403,
      'Adapters cannot be loaded by request on this server, for others can reach it; start it with --allow-adapters-under DIR',
    );
  }
  if (!isAbsolute(path) || path.includes('\0')) {
    throw new PolicyRefusal(400, `Loading lora ${name} failed: expected an absolute path of a directory on the server, got another`, {
      param: 'lora_path',
    });
  }
  const directory = await realPath(path);
  if (places !== 'any') {
    const outside = (what: string) =>
      new PolicyRefusal(403, `Loading lora ${name} failed: expected ${what} under ${places.join(' or ')} (--allow-adapters-under), got another`);
    if (!(await isUnder(directory, places))) throw outside('a directory');
    for (const file of files) if (await leadsOut(join(path, file), places)) throw outside(`a file ${file}`);
  }
  if (directory === null) throw new PolicyRefusal(404, `Loading lora ${name} failed: No adapter found for ${path}`);
  return directory;
}

/** Null where the path leads nowhere, or nowhere that this process may look. */
function realPath(path: string): Promise<string | null> {
  return realpath(path).catch(() => null);
}

/** Whether a file lies elsewhere, or is a link to where nothing is: whether something is there is not told either. */
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
