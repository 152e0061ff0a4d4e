/** Adapters as files: links that work for a while without a key, and behind them the archive in PEFT's form, or one of its files. */
import { randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createGzip } from 'node:zlib';
import { LRUCache } from 'lru-cache';
import { packTar } from 'modern-tar/fs';
import { streamRegularFile } from '../../files/regular-file.ts';
import { TinkerRefusal } from './tinker-refusal.ts';

const [MOST_LINKS, KEPT_MS, PIECE_BYTES] = [1000, 10 * 60_000, 2 ** 18] as const;

export class Archives {
  readonly #folders = new LRUCache<string, string>({ max: MOST_LINKS, ttl: KEPT_MS });

  /** Names of files that links lead to. */
  files(folder: string): Promise<readonly string[]> {
    return readdir(folder);
  }

  /** The last part of the link's path, and when it ends. */
  link(folder: string): { readonly token: string; readonly expires: Date } {
    const token = randomBytes(24).toString('base64url');
    this.#folders.set(token, folder);
    return { token, expires: new Date(Date.now() + KEPT_MS) };
  }

  /** The files of the folder, as .tar.gz. Throws TinkerRefusal (404) for a link that does not work any more. */
  open(token: string): ReadableStream<Uint8Array> {
    const folder = this.#folderOf(token);
    const files = packTar(folder, { map: (header) => ({ ...header, uid: 0, gid: 0, uname: '', gname: '' }) });
    const zip = createGzip();
    files.once('error', (error) => zip.destroy(error));
    return Readable.toWeb(files.pipe(zip)) as ReadableStream<Uint8Array>;
  }

  /** One file of the folder. Rejects with TinkerRefusal (404) for a link that does not work any more, and for a file that is not there. */
  async file(token: string, name: string): Promise<ReadableStream<Uint8Array>> {
    const folder = this.#folderOf(token);
    if (!(await readdir(folder)).includes(name)) throw new TinkerRefusal(404, 'This link leads to no file of that name; list the files again');
    return Readable.toWeb(await streamRegularFile(join(folder, name), { pieceBytes: PIECE_BYTES })) as ReadableStream<Uint8Array>;
  }

  #folderOf(token: string): string {
    const folder = this.#folders.get(token);
    if (folder === undefined) throw new TinkerRefusal(404, 'This link has expired; ask for it again');
    return folder;
  }
}
