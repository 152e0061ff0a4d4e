/**
 * The cache of Hugging Face's own tools, shared with them so that a file is downloaded once:
 * `datasets--ORG--NAME` and `models--ORG--NAME`, each with `{blobs/<etag>, snapshots/<commit>/<file>, refs/<branch>, .no_exist/<commit>/<file>}`. A blob gets its name only when it is
 * complete, and two processes may download the same one at the same time.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, open, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { ifThere } from '../files/if-there.ts';
import { readRegularFile } from '../files/regular-file.ts';
import { ConfigError } from '../core/errors.ts';
import { makeFolder } from '../files/make-folder.ts';
import { removeLeftOvers, temporaryPrefix } from '../files/temporary-names.ts';

/** Looks in the order of `huggingface_hub`: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. */
export function hubCacheFolder(env: Readonly<Record<string, string | undefined>>): string {
  const given = env['HF_HUB_CACHE'] || env['HUGGINGFACE_HUB_CACHE'];
  if (given) return given;
  return join(hubHome(env), 'hub');
}

/** HF_HOME, XDG_CACHE_HOME/huggingface or ~/.cache/huggingface. */
export function hubHome(env: Readonly<Record<string, string | undefined>>): string {
  return env['HF_HOME'] || join(env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'huggingface');
}

/** The hub's description of a file before the download. */
export interface BlobDescription {
  /** The blob's name: the SHA-256 of a large file, the Git object id of a small one. */
  readonly etag: string;
  readonly bytes: number;
  /** Present if the hub sends it. */
  readonly sha256?: string;
  /** The SHA-1 of a Git blob, if it is known. */
  readonly gitId?: string;
}

export class HubCache {
  readonly #folder: string;

  constructor(cacheFolder: string, { type, name }: { readonly type: 'dataset' | 'model'; readonly name: string }) {
    this.#folder = join(cacheFolder, `${type}s--${name.replaceAll('/', '--')}`);
  }

  /** Path of a cached file, or null. */
  find(commit: string, file: string): string | null {
    const path = this.#snapshot(commit, file);
    return existsSync(path) ? path : null;
  }

  isKnownAbsent(commit: string, file: string): boolean {
    return existsSync(join(this.#folder, '.no_exist', commit, file));
  }

  async rememberAbsent(commit: string, file: string): Promise<void> {
    await writeInside(join(this.#folder, '.no_exist', commit, file), '');
  }

  /** The commit of a branch or tag at the last request to the hub, or null. */
  async findCommit(branch: string): Promise<string | null> {
    const text = await ifThere(join(this.#folder, 'refs', branch), readRegularFile);
    const commit = text?.trim() ?? '';
    return /^[0-9a-f]{40}$/.test(commit) ? commit : null;
  }

  async rememberCommit(branch: string, commit: string): Promise<void> {
    await writeInside(join(this.#folder, 'refs', branch), commit);
  }

  /** Stores `content` unless the blob exists, links it into the snapshot, and returns the path there. */
  async store(commit: string, file: string, blob: BlobDescription, content: () => Promise<AsyncIterable<Uint8Array>>): Promise<string> {
    if (!/^[\w-]{1,128}$/.test(blob.etag)) throw new ConfigError(`The hub sent an invalid hash for ${file}: ${JSON.stringify(blob.etag)}.`);
    const blobPath = join(this.#folder, 'blobs', blob.etag);
    if (!existsSync(blobPath)) await writeBlob(blobPath, file, blob, await content());
    const path = this.#snapshot(commit, file);
    makeFolder(dirname(path));
    await link(blobPath, path);
    return path;
  }

  /** The folder of a commit's files. */
  snapshotFolder(commit: string): string {
    return join(this.#folder, 'snapshots', commit);
  }

  #snapshot(commit: string, file: string): string {
    return join(this.#folder, 'snapshots', commit, file);
  }
}

async function writeInside(path: string, text: string): Promise<void> {
  makeFolder(dirname(path));
  await writeFile(path, text);
}

/** Checks size and hash, so that a truncated or wrong download is never used. */
async function writeBlob(path: string, file: string, { bytes, sha256, gitId }: BlobDescription, content: AsyncIterable<Uint8Array>): Promise<void> {
  makeFolder(dirname(path));
  await appearWhole(path, async (unfinished) => {
    const hash = createHash('sha256');
    const object = createHash('sha1').update(`blob ${bytes}\0`);
    const handle = await open(unfinished, 'wx');
    let written = 0;
    try {
      for await (const chunk of content) {
        written += chunk.length;
        if (written > bytes) throw new ConfigError(`The hub sends more than the ${bytes} bytes that it announced of ${file}.`);
        hash.update(chunk);
        object.update(chunk);
        await handle.writeFile(chunk);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (written !== bytes) throw new ConfigError(`The hub sent ${written} of ${bytes} bytes of ${file}.`, { retryable: true });
    const digest = hash.digest('hex');
    if (sha256 !== undefined && digest !== sha256)
      throw new ConfigError(`${file} must have SHA-256 ${sha256}, but the hub sent ${digest}.`, { retryable: true });
    const id = object.digest('hex');
    if (gitId !== undefined && id !== gitId)
      throw new ConfigError(`${file} must have the Git object id ${gitId}, but the hub sent ${id}.`, { retryable: true });
  });
}

/** Machines may share a cache, and no download takes a day. */
const SHARED_REST_MS = 86_400_000;

/** Writes next to the target under a unique name, then renames. A killed process leaves an unfinished file, which a download of the same file removes a day later. */
async function appearWhole(path: string, write: (unfinished: string) => Promise<void>): Promise<void> {
  removeLeftOvers(path, { restMs: SHARED_REST_MS });
  const folder = await mkdtemp(temporaryPrefix(path));
  try {
    const unfinished = join(folder, 'content');
    await write(unfinished);
    await rename(unfinished, path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Creates a relative link, as `huggingface_hub` does, or a copy if the file system has no links. An existing link stays. */
async function link(blobPath: string, path: string): Promise<void> {
  try {
    await symlink(relative(dirname(path), blobPath), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    await appearWhole(path, (unfinished) => copyFile(blobPath, unfinished));
  }
}
