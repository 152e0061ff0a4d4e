/** Restricts the directories from which requests may load adapters. */
import { realpath } from 'node:fs/promises';
import { isAbsolute, sep } from 'node:path';
import { PolicyRefusal } from './policy-refusal.ts';

/** `any`: every directory of this machine. `none`: requests cannot load adapters. A list: only from under these directories, after resolving links. */
export type AdapterPlaces = 'any' | 'none' | readonly string[];

/**
 * Resolves a path and its links, so that the checked directory is the one that is read. Throws a refusal: 404 if it is missing, 400 if the path is not absolute, 403 if
 * it is outside the allowed places, whether it exists or not.
 */
export async function adapterDirectory(path: string, { name, places }: { readonly name: string; readonly places: AdapterPlaces }): Promise<string> {
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
  const directory = await realpath(path).catch(() => null);
  if (places !== 'any' && !(await isUnder(directory, places))) {
    throw new PolicyRefusal(403, `Loading lora ${name} failed: the directory must be under ${places.join(' or ')} (--allow-adapters-under)`);
  }
  if (directory === null) throw new PolicyRefusal(404, `Loading lora ${name} failed: No adapter found for ${path}`);
  return directory;
}

async function isUnder(directory: string | null, places: readonly string[]): Promise<boolean> {
  const roots = await Promise.all(places.map((place) => realpath(place).catch(() => null)));
  return roots.some((root) => directory !== null && root !== null && `${directory}${sep}`.startsWith(root.endsWith(sep) ? root : `${root}${sep}`));
}
