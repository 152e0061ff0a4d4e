/**
 * The images of a run, by the digest of their bytes: a folder of files `<sha256>.<ext>`. Before the run has a folder, and for tests, they are kept in memory.
 */
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { readRegularBytes } from './regular-file.ts';
import { ConfigError } from '../core/errors.ts';
import type { ImageRef, ImageStore } from '../core/message.ts';
import { replaceFile } from './json-lines.ts';
import { makeFolder } from './make-folder.ts';
import { systemText } from './system-text.ts';

/** Media types that a run keeps, and the ends of their files' names. */
const EXTENSIONS: ReadonlyMap<string, string> = new Map([
  ['image/png', 'png'],
  ['image/jpeg', 'jpg'],
  ['image/webp', 'webp'],
]);

/** The name of an image's file. Throws ConfigError for a type of file that no run keeps. */
function imageFileName({ sha256, mediaType }: Pick<ImageRef, 'sha256' | 'mediaType'>): string {
  const extension = EXTENSIONS.get(mediaType);
  if (extension === undefined) throw new ConfigError(`Images of type ${mediaType} are not kept; give ${[...EXTENSIONS.keys()].join(', ')}.`);
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new ConfigError(`${JSON.stringify(sha256.slice(0, 80))} is not the SHA-256 of an image.`);
  return `${sha256}.${extension}`;
}

/** Throws ConfigError for a description without type or size: environments in TypeScript run without a type check. */
function assertDescribed({ mediaType, width, height }: Partial<Omit<ImageRef, 'sha256'>> = {}): void {
  const isSized = [width, height].every((side) => Number.isSafeInteger(side) && side! > 0);
  if (typeof mediaType === 'string' && isSized) return;
  const got = JSON.stringify({ mediaType, width, height });
  throw new ConfigError(`put(bytes, { mediaType, width, height }) needs the type of the image and its size in pixels, got ${got}.`);
}

export class RunImages implements ImageStore {
  #folder: string | null = null;
  /** Bytes by file name: all of them without a folder, else those that are being written. */
  readonly #kept = new Map<string, Uint8Array>();
  readonly #writing = new Map<string, Promise<void>>();

  /** Keeps the images in this folder from now on, including those so far. Creates it with the first image. */
  async keepIn(folder: string): Promise<void> {
    this.#folder = folder;
    await Promise.all([...this.#kept].map(([name, bytes]) => this.#write(name, bytes)));
  }

  async put(bytes: Uint8Array, image: Omit<ImageRef, 'sha256'>): Promise<ImageRef> {
    assertDescribed(image);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const ref = { ...image, sha256 };
    const name = imageFileName(ref);
    if (this.#folder === null) this.#kept.set(name, bytes);
    else await this.#write(name, bytes);
    return ref;
  }

  async get(image: ImageRef): Promise<Uint8Array> {
    const name = imageFileName(image);
    const kept = this.#kept.get(name);
    if (kept !== undefined) return kept;
    if (this.#folder === null) throw new ConfigError(`The image ${image.sha256} is not known. It was never put into this store.`);
    const path = join(this.#folder, name);
    const bytes = await readRegularBytes(path).catch((cause: unknown) => {
      throw new ConfigError(`The image ${path} cannot be read: ${systemText(cause)}`, { cause });
    });
    if (createHash('sha256').update(bytes).digest('hex') === image.sha256) return bytes;
    throw new ConfigError(`The image ${path} was changed: its bytes have another SHA-256 than its name says. Restore it, or start another run.`);
  }

  /** Writes a file completely or not at all, unless it exists. Callers that put the same image meanwhile wait for it. */
  async #write(name: string, bytes: Uint8Array): Promise<void> {
    let writing = this.#writing.get(name);
    if (writing === undefined) {
      this.#kept.set(name, bytes);
      writing = this.#writeFile(name, bytes).finally(() => {
        this.#writing.delete(name);
        this.#kept.delete(name);
      });
      this.#writing.set(name, writing);
    }
    await writing;
  }

  async #writeFile(name: string, bytes: Uint8Array): Promise<void> {
    const path = join(this.#folder!, name);
    // A resumed run shows the same images again.
    const isThere = await stat(path).then(
      (about) => about.isFile() && about.size === bytes.length,
      () => false,
    );
    if (!isThere) {
      makeFolder(this.#folder!);
      await replaceFile(path, (write) => write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)));
    }
  }
}
