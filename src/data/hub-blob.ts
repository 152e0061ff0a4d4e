/** Downloads one file of a hub's repository into the cache. */
import { ConfigError } from '../core/errors.ts';
import type { HubCache } from './hub-cache.ts';
import type { HubParameters, HubRepository } from './hub-connection.ts';

/** The hub's description of a file. */
export interface HubFile {
  readonly path: string;
  readonly size: number;
  readonly oid?: string;
  readonly xetHash?: string;
  readonly lfs?: { readonly oid: string; readonly size: number };
}

/** Throws ConfigError if the text is not a commit. */
export function checkedCommit(sha: string, revision: string): string {
  if (/^[0-9a-f]{40}$/.test(sha)) return sha;
  throw new ConfigError(`The hub sent an invalid commit for ${revision}: ${JSON.stringify(sha)}.`);
}

export type HubPlace = HubParameters & { readonly repo: HubRepository; readonly revision: string };

/** Returns the file's path in the cache. */
export async function downloadBlob(cache: HubCache, commit: string, file: HubFile, at: HubPlace): Promise<string> {
  const { path, lfs, xetHash, oid = '' } = file;
  const blob = {
    etag: lfs?.oid ?? xetHash ?? oid,
    bytes: lfs?.size ?? file.size,
    ...(lfs && /^[0-9a-f]{64}$/.test(lfs.oid) && { sha256: lfs.oid }),
    // Of a small file the commit itself has the hash.
    ...(lfs === undefined && xetHash === undefined && /^[0-9a-f]{40}$/.test(oid) && { gitId: oid }),
  };
  return cache.store(commit, path, blob, async () => {
    const { downloadFile } = await import('@huggingface/hub');
    // Plain HTTP: Xet saves nothing on files of this size, and the hub serves every file both ways.
    const content = await downloadFile({ ...at, fetch: at.fetchFile, path, xet: false });
    if (content === null) throw new ConfigError(`The hub lists ${path} in ${at.repo.name} but could not send it.`);
    return content.stream();
  });
}
