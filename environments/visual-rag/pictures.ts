/**
 * Pictures of pages: opened from a folder, cut, scaled and encoded with sharp, kept in the run's image store. A picture that would fill the memory is refused
 * before anything is decoded.
 */
import { ConfigError, VfError } from 'vf-search';
import { type ImageRef, type ImageStore, Limiter, MAX_ASPECT, MAX_IMAGE_PIXELS, thrownText } from 'vf-search/environment-kit';
import type sharpPackage from 'sharp';
import type { Area, Size } from './boxes.ts';
import { PictureFiles } from './picture-files.ts';
import { SharedWork } from './shared-work.ts';

/** References to pictures that were made already; a group of rollouts shows the same pages. */
const CACHED = 4096;
/** Cached sizes of pages: a few bytes each. */
const CACHED_SIZES = 2 ** 16;
/** Pictures that are read and decoded at once, for all episodes: each takes the bytes of its file and four bytes a pixel. */
const AT_ONCE = 8;

export interface PictureRequest {
  readonly page: string;
  /** The part to cut out, in the page's pixels; null for the whole page. */
  readonly area: Area | null;
  readonly size: Size;
}

export class Pictures {
  readonly #files: PictureFiles;
  readonly #store: ImageStore;
  readonly #sharp: typeof sharpPackage;
  readonly #limiter = new Limiter(AT_ONCE);
  readonly #sizes = new SharedWork<Size>(CACHED_SIZES);
  readonly #made = new SharedWork<ImageRef>(CACHED);

  private constructor(files: PictureFiles, store: ImageStore, sharp: typeof sharpPackage) {
    this.#files = files;
    this.#store = store;
    this.#sharp = sharp;
  }

  /** Throws ConfigError if the folder or the package sharp is missing. */
  static async open(folder: string, store: ImageStore): Promise<Pictures> {
    const [files, sharp] = [await PictureFiles.open(folder), await loadSharp()];
    return new Pictures(files, store, sharp);
  }

  /** The size of a page, upright. Rejects with CancelledError once the signal aborts. */
  size(page: string, signal: AbortSignal): Promise<Size> {
    return this.#sizes.get(page, (shared) => this.#limiter.run(() => this.#readSize(page), shared), signal);
  }

  /** The picture in the form that is shown, put into the store. Rejects like `size`. */
  picture(request: PictureRequest, signal: AbortSignal): Promise<ImageRef> {
    const { page, area, size } = request;
    const make = async (shared: AbortSignal) => {
      // Checks the format before anything is decoded.
      await this.size(page, shared);
      return this.#limiter.run(() => this.#make(request), shared);
    };
    return this.#made.get(JSON.stringify([page, area, size.width, size.height]), make, signal);
  }

  async #readSize(page: string): Promise<Size> {
    const { bytes, isWhole } = await this.#files.head(page);
    const metadata = (of: Buffer) => this.#sharp(of, { limitInputPixels: false }).metadata();
    const about = await metadata(bytes)
      .catch(async (error: unknown) => {
        if (isWhole) throw error;
        return metadata((await this.#files.read(page)).bytes);
      })
      .catch((error: unknown) => {
        throw error instanceof VfError ? error : this.#files.unusable(page, undecodable(error));
      });
    const { width, height } = about.autoOrient;
    if (width * height > MAX_IMAGE_PIXELS)
      throw this.#files.unusable(page, `it has ${width} × ${height} pixels, more than ${MAX_IMAGE_PIXELS / 1e6} million`);
    if (Math.max(width, height) / Math.min(width, height) > MAX_ASPECT)
      throw this.#files.unusable(page, `it has ${width} × ${height} pixels; one side may be at most ${MAX_ASPECT} times the other`);
    return { width, height };
  }

  async #make({ page, area, size }: PictureRequest): Promise<ImageRef> {
    const source = await this.#files.read(page);
    const upright = this.#sharp(source.bytes, { limitInputPixels: MAX_IMAGE_PIXELS }).autoOrient();
    const cut = area === null ? upright : upright.extract({ left: area[0], top: area[1], width: area[2] - area[0], height: area[3] - area[1] });
    const bytes = await cut
      .resize(size.width, size.height, { fit: 'fill' })
      .flatten({ background: '#ffffff' })
      .toColourspace('srgb')
      .png({ compressionLevel: 6 })
      .toBuffer()
      .catch((error: unknown) => {
        throw this.#files.unusable(page, undecodable(error));
      });
    return this.#store.put(bytes, { mediaType: 'image/png', width: size.width, height: size.height });
  }
}

async function loadSharp(): Promise<typeof sharpPackage> {
  try {
    return (await import('sharp')).default;
  } catch (cause) {
    throw new ConfigError('Pictures of pages need the package sharp. Install it with: npm install sharp@0.35.5', { cause });
  }
}

/** The message with the decoder's own lines, but without those about its output; sometimes the decoder gives only these. */
export function undecodable(error: unknown): string {
  const lines = thrownText(error)
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('vips2png:'));
  const why = lines.length === 0 ? '' : ` (${lines.join('; ').replace(/(?<![.\s])[.\s]+$/, '')})`;
  return `it cannot be decoded${why}; the file may be incomplete`;
}
