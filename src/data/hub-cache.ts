/**
 * The cache that Hugging Face's own tools keep, so that a file is downloaded once for all of them:
 * `datasets--ORG--NAME/{blobs/<etag>, snapshots/<commit>/<file>, refs/<branch>, .no_exist/<commit>/<file>}`. A blob appears under its name only
 * when it is whole; two processes that download the same one do not meet.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, open, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { ConfigError } from '../core/errors.ts';
import { makeFolder } from '../files/make-folder.ts';

/** As `huggingface_hub` looks it up: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. */
export function hubCacheFolder(env: Readonly<Record<string, string | undefined>>): string {
  const given = env['HF_HUB_CACHE'] || env['HUGGINGFACE_HUB_CACHE'];
  if (given) return given;
  const home = env['HF_HOME'] || join(env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'huggingface');
  return join(home, 'hub');
}

/** What the hub says about a file before it is downloaded. */
export interface BlobDescription {
  /** Names the blob: the SHA-256 of a large file, the Git object id of a small one. */
  readonly etag: string;
  readonly bytes: number;
  /** Present where the hub gives it. */
  readonly sha256?: string;
}

export class HubCache {
  readonly #folder: string;

  constructor(cacheFolder: string, repository: string) {
    this.#folder = join(cacheFolder, `datasets--${repository.replaceAll('/', '--')}`);
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

  /** The commit that a branch or tag had when the hub was last asked, or null. */
  async findCommit(branch: string): Promise<string | null> {
    const text = await readFile(join(this.#folder, 'refs', branch), 'utf8').catch(() => '');
    return /^[0-9a-f]{40}$/.test(text.trim()) ? text.trim() : null;
  }

  async rememberCommit(branch: string, commit: string): Promise<void> {
    await writeInside(join(this.#folder, 'refs', branch), commit);
  }

  /** Stores `content` unless the blob is there already, and gives the file its place in the snapshot. Returns that path. */
  async store(commit: string, file: string, blob: BlobDescription, content: () => Promise<AsyncIterable<Uint8Array>>): Promise<string> {
    if (!/^[\w-]{1,128}$/.test(blob.etag)) throw new ConfigError(`Expected a hash that names ${file}, the hub gave ${JSON.stringify(blob.etag)}`);
    const blobPath = join(this.#folder, 'blobs', blob.etag);
    if (!existsSync(blobPath)) await writeBlob(blobPath, file, blob, await content());
    const path = this.#snapshot(commit, file);
    makeFolder(dirname(path));
    await link(blobPath, path);
    return path;
  }

  #snapshot(commit: string, file: string): string {
    return join(this.#folder, 'snapshots', commit, file);
  }
}

async function writeInside(path: string, text: string): Promise<void> {
  makeFolder(dirname(path));
  await writeFile(path, text);
}

/** Nothing short or wrong is ever taken for the file. */
async function writeBlob(path: string, file: string, { bytes, sha256 }: BlobDescription, content: AsyncIterable<Uint8Array>): Promise<void> {
  makeFolder(dirname(path));
  await appearWhole(path, async (unfinished) => {
    const hash = createHash('sha256');
    const handle = await open(unfinished, 'wx');
    let written = 0;
    try {
      for await (const chunk of content) {
        hash.update(chunk);
        written += chunk.length;
        await handle.writeFile(chunk);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (written !== bytes) throw new ConfigError(`Expected ${bytes} bytes of ${file}, the hub sent ${written}`, { retryable: true });
    const digest = hash.digest('hex');
    if (sha256 !== undefined && digest !== sha256)
      throw new ConfigError(`Expected ${file} with SHA-256 ${sha256}, the hub sent ${digest}`, { retryable: true });
  });
}

/** Written beside its place under a name that nobody else has, then renamed. Only a killed process leaves something unfinished behind. */
async function appearWhole(path: string, write: (unfinished: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(`${path}.incomplete-`);
  try {
    const unfinished = join(folder, 'content');
    await write(unfinished);
    await rename(unfinished, path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A relative link, as `huggingface_hub` makes it; a copy where the file system has no links. Whoever comes second finds it done. */
async function link(blobPath: string, path: string): Promise<void> {
  try {
    await symlink(relative(dirname(path), blobPath), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    await appearWhole(path, (unfinished) => copyFile(blobPath, unfinished));
  }
}
