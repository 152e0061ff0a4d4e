/**
 * The files of pages' pictures in a folder. The folder comes from outside, and so do the names of pages: a name that leaves the folder and a file of another
 * kind are refused before anything is decoded.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readdir, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { ConfigError, EnvironmentError } from 'vf-search';
import { isInside, MAX_IMAGE_BYTES, thrownText } from 'vf-search/environment-kit';

/** Extensions of files, in any case, in the order of the search. */
const EXTENSIONS = ['png', 'jpg', 'jpeg', 'webp'];
/** These bytes contain the header with the size of nearly every picture. A large WebP may have its orientation at the end. */
const HEAD_BYTES = 256 * 2 ** 10;
/** A pipe does not block. Windows lacks the flag. */
const FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/** File names by page; the first of a page is the one that is shown. */
type Listed = ReadonlyMap<string, readonly string[]>;

/** The pictures that lay in the folder when it was opened. */
export class PictureFiles {
  /** Without links. */
  readonly folder: string;
  /** By folder, without links. */
  readonly #listed: Map<string, Listed>;

  private constructor(folder: string, listed: Listed) {
    this.folder = folder;
    this.#listed = new Map([[folder, listed]]);
  }

  /** Throws ConfigError if the folder is missing or cannot be listed. */
  static async open(folder: string): Promise<PictureFiles> {
    try {
      const real = await realpath(folder);
      return new PictureFiles(real, byPage(await readdir(real)));
    } catch (cause) {
      const { code = '' } = cause as NodeJS.ErrnoException;
      const why = { ENOENT: 'does not exist', ENOTDIR: 'is a file' }[code] ?? `cannot be opened: ${thrownText(cause)}`;
      throw new ConfigError(`The folder of page pictures ${JSON.stringify(folder).slice(1, -1)} ${why}. Correct "images".`, { cause });
    }
  }

  /** Names of all pages in the folder itself, sorted. */
  get pages(): string[] {
    return [...this.byPage.keys()].toSorted();
  }

  /** The files in the folder itself by page; the first of a page is the one that is shown. */
  get byPage(): Listed {
    return this.#listed.get(this.folder)!;
  }

  /** The pages among them that have no file here, nor in a subfolder. */
  async without(pages: Iterable<string>): Promise<string[]> {
    const lacking: string[] = [];
    for (const page of pages) if (!this.byPage.has(page) && !(await this.#has(page))) lacking.push(page);
    return lacking;
  }

  /** The bytes of a page's picture and its media type. Throws EnvironmentError if the picture cannot be used. */
  async read(page: string): Promise<{ readonly bytes: Buffer; readonly mediaType: string }> {
    const { bytes, mediaType } = await this.#read(page, MAX_IMAGE_BYTES);
    return { bytes, mediaType };
  }

  /** As `read`, but only the first bytes, which name the size of nearly every picture. */
  async head(page: string): Promise<{ readonly bytes: Buffer; readonly isWhole: boolean }> {
    return this.#read(page, HEAD_BYTES);
  }

  unusable(page: string, why: string): EnvironmentError {
    return new EnvironmentError(
      `The picture of page ${JSON.stringify(page.slice(0, 200))} in ${this.folder} cannot be used: ${why.trim().replaceAll(/\s+/g, ' ')}.`,
    );
  }

  async #read(page: string, most: number): Promise<{ readonly bytes: Buffer; readonly mediaType: string; readonly isWhole: boolean }> {
    await using file = await open(await this.#path(page), FLAGS).catch((cause: unknown) => {
      throw this.unusable(page, `it cannot be opened (${thrownText(cause)})`);
    });
    const about = await file.stat();
    if (!about.isFile()) throw this.unusable(page, 'it is not a regular file');
    if (about.size > MAX_IMAGE_BYTES) throw this.unusable(page, `the file has more than ${MAX_IMAGE_BYTES / 2 ** 20} MiB`);
    const bytes = await firstBytes(file, Math.min(about.size, most));
    if (bytes.length === 0) throw this.unusable(page, 'the file is empty');
    // Recognised by its first bytes, because the decoder would also read SVG, which can name other files.
    const mediaType = mediaTypeOf(bytes);
    if (mediaType === null) throw this.unusable(page, 'its first bytes are not those of a PNG, JPEG or WebP');
    return { bytes, mediaType, isWhole: about.size <= most };
  }

  async #has(page: string): Promise<boolean> {
    return this.#path(page).then(
      () => true,
      () => false,
    );
  }

  /** The file of a page, which must be inside the folder even if it is a link. */
  async #path(page: string): Promise<string> {
    if (page === '' || page.includes('\0') || page.split(/[/\\]/).includes('..')) throw this.unusable(page, 'its name leaves the folder');
    const under = dirname(page);
    const name = (await this.#list(under, page))?.get(page.slice(page.lastIndexOf('/') + 1))?.[0];
    const real = name === undefined ? null : await realpath(join(this.folder, under, name)).catch(() => null);
    if (real !== null) return this.#inside(real, page);
    throw this.unusable(
      page,
      'the folder has no file of that name that ends in ' +
        `${EXTENSIONS.slice(0, -1)
          .map((extension) => `.${extension}`)
          .join(', ')} or .${EXTENSIONS.at(-1)}`,
    );
  }

  /** The pictures in a subfolder; null if it cannot be listed. */
  async #list(under: string, page: string): Promise<Listed | null> {
    const real = under === '.' ? this.folder : await realpath(join(this.folder, under)).catch(() => null);
    if (real === null) return null;
    const known = this.#listed.get(this.#inside(real, page));
    if (known !== undefined) return known;
    const names = await readdir(real).catch(() => null);
    if (names === null) return null;
    const listed = byPage(names);
    this.#listed.set(real, listed);
    return listed;
  }

  #inside(real: string, page: string): string {
    if (isInside(this.folder, real)) return real;
    throw this.unusable(page, 'its name leaves the folder');
  }
}

function byPage(names: readonly string[]): Listed {
  const found = names.flatMap((name) => {
    const [, page, end] = /^(.+)\.(png|jpe?g|webp)$/is.exec(name) ?? [];
    return page === undefined ? [] : [{ name, page, rank: EXTENSIONS.indexOf(end!.toLowerCase()), isLower: end === end!.toLowerCase() }];
  });
  // Of `a.png` and `a.PNG` the first is shown.
  const sorted = found.toSorted((a, b) => a.rank - b.rank || Number(b.isLower) - Number(a.isLower) || (a.name < b.name ? -1 : 1));
  return new Map([...Map.groupBy(sorted, ({ page }) => page)].map(([page, files]) => [page, files.map(({ name }) => name)]));
}

async function firstBytes(file: FileHandle, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  let end = 0;
  for (let read = -1; read !== 0 && end < length; end += read) read = (await file.read(bytes, end, length - end, end)).bytesRead;
  return bytes.subarray(0, end);
}

function mediaTypeOf(bytes: Buffer): string | null {
  const isAt = (at: number, text: string) => bytes.toString('latin1', at, at + text.length) === text;
  if (isAt(0, '\x89PNG\r\n\x1a\n')) return 'image/png';
  if (isAt(0, '\xff\xd8\xff')) return 'image/jpeg';
  return isAt(0, 'RIFF') && isAt(8, 'WEBP') ? 'image/webp' : null;
}
