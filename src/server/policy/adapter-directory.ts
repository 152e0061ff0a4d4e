/** Which directories requests may load adapters from. */
import { realpath } from 'node:fs/promises';
import { isAbsolute, sep } from 'node:path';
import { PolicyRefusal } from './policy-refusal.ts';

/** `any`: every directory of this machine. `none`: no request may load one. A list: from under these alone, links followed. */
export type AdapterPlaces = 'any' | 'none' | readonly string[];

/**
 * The directory that a path leads to, without links, so that what was checked is what is read. Throws a refusal: 404 where nothing is there, 400 where the path is
 * not absolute, 403 where it leads elsewhere, which is all that is told of a place outside.
 */
export async function adapterDirectory(path: string, { name, places }: { readonly name: string; readonly places: AdapterPlaces }): Promise<string> {
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
  const directory = await realpath(path).catch(() => null);
  if (places !== 'any' && !(await isUnder(directory, places))) {
    throw new PolicyRefusal(
      403,
      `Loading lora ${name} failed: expected a directory under ${places.join(' or ')} (--allow-adapters-under), got another`,
    );
  }
  if (directory === null) throw new PolicyRefusal(404, `Loading lora ${name} failed: No adapter found for ${path}`);
  return directory;
}

async function isUnder(directory: string | null, places: readonly string[]): Promise<boolean> {
  const roots = await Promise.all(places.map((place) => realpath(place).catch(() => null)));
  return roots.some((root) => directory !== null && root !== null && `${directory}${sep}`.startsWith(root.endsWith(sep) ? root : `${root}${sep}`));
}
