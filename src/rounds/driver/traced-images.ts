/** The pictures that runs showed, from the `images/` folders next to their traces, for questions to a model. Writes nothing. */
import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import { namesIn } from '../../files/if-there.ts';
import { ConfigError } from '../../core/errors.ts';
import type { ImageRef, ImageStore } from '../../core/message.ts';
import { RunImages } from '../../files/run-images.ts';
import { demonstrationPictures } from '../../sessions/training/demonstration-pictures.ts';

interface Folder {
  readonly digests: ReadonlySet<string>;
  readonly images: RunImages;
  readonly read: Awaited<ReturnType<typeof demonstrationPictures>>;
}

export class TracedImages implements ImageStore {
  readonly #folders: Folder[] = [];

  /** @param traces paths of `trace.jsonl` */
  static async besides(traces: readonly string[]): Promise<TracedImages> {
    const opened = new TracedImages();
    for (const path of new Set(traces.map((trace) => join(dirname(trace), 'images')))) {
      const names = await namesIn(path);
      if (names.length === 0) continue;
      const images = new RunImages();
      await images.keepIn(path);
      opened.#folders.push({ digests: new Set(names.map((name) => name.slice(0, 64))), images, read: await demonstrationPictures(path, opened) });
    }
    return opened;
  }

  /** The picture by its name in a trace. Rejects with ConfigError for one that no run kept. */
  async named(name: string): Promise<ImageRef> {
    const folder = this.#folderOf(name);
    if (folder === undefined)
      throw new ConfigError(
        'The trace shows pages as pictures, which verify cannot send to a vetter. Leave --role out and fill in the list yourself.',
      );
    return folder.read(name);
  }

  /** Stores nothing: the bytes are already a file of the folder. */
  put(bytes: Uint8Array, image: Omit<ImageRef, 'sha256'>): Promise<ImageRef> {
    return Promise.resolve({ ...image, sha256: createHash('sha256').update(bytes).digest('hex') });
  }

  get(image: ImageRef): Promise<Uint8Array> {
    const folder = this.#folderOf(image.sha256);
    if (folder === undefined) return Promise.reject(new ConfigError(`No run kept the picture ${image.sha256}; restore its file.`));
    return folder.images.get(image);
  }

  #folderOf(name: string): Folder | undefined {
    return this.#folders.find(({ digests }) => digests.has(name));
  }
}
