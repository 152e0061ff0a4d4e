/**
 * Pictures of pages: opened from a folder, cut, scaled and encoded with sharp, kept in the run's image store. A folder of pictures comes from outside, and so do the
 * names of pages: a name that leaves the folder, a file of another kind and a picture that would fill the memory are refused before anything is decoded.
 */
import { readFile, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { ConfigError, EnvironmentError, type ImageRef, type ImageStore, thrownText } from 'vf-search';
import type sharpPackage from 'sharp';
import type { Area, Size } from './boxes.ts';

/** Ends of file names, in the order in which they are looked for. */
const EXTENSIONS = ['png', 'jpg', 'jpeg', 'webp'];
/** Larger files are refused. */
const MAX_BYTES = 64 * 2 ** 20;
/** Larger pictures are refused: decoded, one takes four bytes a pixel. */
const MAX_PIXELS = 50_000_000;
/** The most that one side may exceed the other: what Qwen's image processors take. */
const MAX_ASPECT = 200;
/** References to pictures that were made already; a group of rollouts shows the same pages. */
const CACHED = 4096;

export interface PictureRequest {
  readonly page: string;
  /** What to cut out, in the page's pixels; null for the whole page. */
  readonly area: Area | null;
  readonly size: Size;
}

export class Pictures {
  readonly #folder: string;
  readonly #store: ImageStore;
  readonly #sharp: typeof sharpPackage;
  readonly #sizes = new Map<string, Promise<Size>>();
  readonly #made = new Map<string, Promise<ImageRef>>();

  private constructor(folder: string, store: ImageStore, sharp: typeof sharpPackage) {
    this.#folder = folder;
    this.#store = store;
    this.#sharp = sharp;
  }

  /** Throws ConfigError if the folder is missing, or sharp is. */
  static async open(folder: string, store: ImageStore): Promise<Pictures> {
    const [real, sharp] = [await realFolder(folder), await loadSharp()];
    return new Pictures(real, store, sharp);
  }

  /** The size of a page, upright. */
  size(page: string): Promise<Size> {
    let size = this.#sizes.get(page);
    if (size === undefined) {
      size = this.#readSize(page);
      this.#sizes.set(page, size);
      size.catch(() => this.#sizes.delete(page));
    }
    return size;
  }

  /** The picture as it is shown, put into the store. */
  picture(request: PictureRequest): Promise<ImageRef> {
    const { page, area, size } = request;
    const key = JSON.stringify([page, area, size.width, size.height]);
    let made = this.#made.get(key);
    if (made === undefined) {
      made = this.#make(request);
      this.#made.set(key, made);
      made.catch(() => this.#made.delete(key));
      if (this.#made.size > CACHED) this.#made.delete(this.#made.keys().next().value!);
    }
    return made;
  }

  async #readSize(page: string): Promise<Size> {
    const bytes = await this.#read(page);
    const about = await this.#sharp(bytes, { limitInputPixels: false })
      .metadata()
      .catch((error: unknown) => {
        throw this.#unusable(page, thrownText(error));
      });
    const { width, height } = about.autoOrient;
    if (width * height > MAX_PIXELS) throw this.#unusable(page, `it has ${width} × ${height} pixels, more than ${MAX_PIXELS / 1e6} million`);
    if (Math.max(width, height) / Math.min(width, height) > MAX_ASPECT)
      throw this.#unusable(page, `it has ${width} × ${height} pixels; one side may be at most ${MAX_ASPECT} times the other`);
    return { width, height };
  }

  async #make({ page, area, size }: PictureRequest): Promise<ImageRef> {
    // Checks the format before anything is decoded.
    await this.size(page);
    const upright = this.#sharp(await this.#read(page), { limitInputPixels: MAX_PIXELS }).autoOrient();
    const cut = area === null ? upright : upright.extract({ left: area[0], top: area[1], width: area[2] - area[0], height: area[3] - area[1] });
    const bytes = await cut
      .resize(size.width, size.height, { fit: 'fill' })
      .flatten({ background: '#ffffff' })
      .toColourspace('srgb')
      .png({ compressionLevel: 6 })
      .toBuffer()
      .catch((error: unknown) => {
        throw this.#unusable(page, thrownText(error));
      });
    return this.#store.put(bytes, { mediaType: 'image/png', width: size.width, height: size.height });
  }

  async #read(page: string): Promise<Buffer> {
    const path = await this.#path(page);
    const about = await stat(path);
    if (!about.isFile()) throw this.#unusable(page, 'it is not a regular file');
    if (about.size > MAX_BYTES) throw this.#unusable(page, `the file has more than ${MAX_BYTES / 2 ** 20} MiB`);
    const bytes = await readFile(path);
    if (bytes.length === 0) throw this.#unusable(page, 'the file is empty');
    // Recognised by its first bytes, because what decodes pictures would also read SVG, which can name other files.
    if (!isPicture(bytes)) throw this.#unusable(page, 'its bytes are none of PNG, JPEG or WebP');
    return bytes;
  }

  /** The file of a page, inside the folder also where it is a link. */
  async #path(page: string): Promise<string> {
    if (page === '' || page.includes('\0') || page.split(/[/\\]/).includes('..')) throw this.#unusable(page, 'its name leaves the folder');
    for (const extension of EXTENSIONS) {
      const path = join(this.#folder, `${page}.${extension}`);
      const real = await realpath(path).catch(() => null);
      if (real === null) continue;
      if (!real.startsWith(this.#folder + sep)) throw this.#unusable(page, 'its name leaves the folder');
      return real;
    }
    throw this.#unusable(page, `there is no ${EXTENSIONS.map((extension) => `.${extension}`).join(', ')} of that name`);
  }

  #unusable(page: string, why: string): EnvironmentError {
    return new EnvironmentError(`The picture of page ${JSON.stringify(page.slice(0, 200))} in ${this.#folder} cannot be used: ${why}.`);
  }
}

function isPicture(bytes: Buffer): boolean {
  const isAt = (at: number, text: string) => bytes.toString('latin1', at, at + text.length) === text;
  return isAt(0, '\x89PNG\r\n\x1a\n') || isAt(0, '\xff\xd8\xff') || (isAt(0, 'RIFF') && isAt(8, 'WEBP'));
}

async function realFolder(folder: string): Promise<string> {
  try {
    return await realpath(folder);
  } catch (cause) {
    throw new ConfigError(`The folder of page pictures ${folder} cannot be opened: ${thrownText(cause)}`, { cause });
  }
}

async function loadSharp(): Promise<typeof sharpPackage> {
  try {
    return (await import('sharp')).default;
  } catch (cause) {
    throw new ConfigError('Pictures of pages need the package sharp. Install it with: npm install sharp@0.35.5', { cause });
  }
}
