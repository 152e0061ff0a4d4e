/**
 * The files of pages' pictures in a folder. The folder comes from outside, and so do the names of pages: a name that leaves the folder and a file of another
 * kind are refused before anything is decoded.
 */
import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { ConfigError, EnvironmentError, thrownText } from 'vf-search';

/** Ends of file names, in the order in which they are looked for. */
const EXTENSIONS = ['png', 'jpg', 'jpeg', 'webp'];
/** Larger files are refused. */
const MAX_BYTES = 64 * 2 ** 20;

export class PictureFiles {
  /** Without links. */
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /** Throws ConfigError if the folder is missing or cannot be listed. */
  static async open(folder: string): Promise<PictureFiles> {
    try {
      const real = await realpath(folder);
      await readdir(real);
      return new PictureFiles(real);
    } catch (cause) {
      const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT';
      throw new ConfigError(
        `The folder of page pictures ${JSON.stringify(folder).slice(1, -1)} ${isMissing ? 'does not exist' : `cannot be opened: ${thrownText(cause)}`}. Correct "images".`,
        { cause },
      );
    }
  }

  /** Names of all pages in the folder itself, sorted. */
  async pages(): Promise<string[]> {
    return [...(await this.byPage()).keys()].toSorted();
  }

  /** The files in the folder itself by page; the first of a page is the one that is shown. */
  async byPage(): Promise<ReadonlyMap<string, readonly string[]>> {
    const found = new Map<string, string[]>();
    const names = await readdir(this.folder);
    for (const extension of EXTENSIONS) {
      for (const name of names) {
        if (!name.endsWith(`.${extension}`) || name === `.${extension}`) continue;
        const page = name.slice(0, -extension.length - 1);
        found.set(page, [...(found.get(page) ?? []), name]);
      }
    }
    return found;
  }

  /** Those of the pages that have no file here. */
  async without(pages: Iterable<string>): Promise<string[]> {
    const listed = await this.byPage();
    const lacking: string[] = [];
    for (const page of pages) if (!listed.has(page) && !(await this.#has(page))) lacking.push(page);
    return lacking;
  }

  /** The bytes of a page's picture and what they are. Throws EnvironmentError if the picture cannot be used. */
  async read(page: string): Promise<{ readonly bytes: Buffer; readonly mediaType: string }> {
    const path = await this.#path(page);
    const about = await stat(path);
    if (!about.isFile()) throw this.unusable(page, 'it is not a regular file');
    if (about.size > MAX_BYTES) throw this.unusable(page, `the file has more than ${MAX_BYTES / 2 ** 20} MiB`);
    const bytes = await readFile(path);
    if (bytes.length === 0) throw this.unusable(page, 'the file is empty');
    // Recognised by its first bytes, because what decodes pictures would also read SVG, which can name other files.
    const mediaType = mediaTypeOf(bytes);
    if (mediaType === null) throw this.unusable(page, 'its first bytes are not those of a PNG, JPEG or WebP');
    return { bytes, mediaType };
  }

  unusable(page: string, why: string): EnvironmentError {
    return new EnvironmentError(
      `The picture of page ${JSON.stringify(page.slice(0, 200))} in ${this.folder} cannot be used: ${why.trim().replaceAll(/\s+/g, ' ')}.`,
    );
  }

  /** Also in a folder of the folder. */
  async #has(page: string): Promise<boolean> {
    return this.#path(page).then(
      () => true,
      () => false,
    );
  }

  /** The file of a page, inside the folder also where it is a link. */
  async #path(page: string): Promise<string> {
    if (page === '' || page.includes('\0') || page.split(/[/\\]/).includes('..')) throw this.unusable(page, 'its name leaves the folder');
    for (const extension of EXTENSIONS) {
      const path = join(this.folder, `${page}.${extension}`);
      const real = await realpath(path).catch(() => null);
      if (real === null) continue;
      if (!real.startsWith(this.folder + sep)) throw this.unusable(page, 'its name leaves the folder');
      return real;
    }
    throw this.unusable(
      page,
      'the folder has no file of that name that ends in ' +
        `${EXTENSIONS.slice(0, -1)
          .map((extension) => `.${extension}`)
          .join(', ')} or .${EXTENSIONS.at(-1)}`,
    );
  }
}

function mediaTypeOf(bytes: Buffer): string | null {
  const isAt = (at: number, text: string) => bytes.toString('latin1', at, at + text.length) === text;
  if (isAt(0, '\x89PNG\r\n\x1a\n')) return 'image/png';
  if (isAt(0, '\xff\xd8\xff')) return 'image/jpeg';
  return isAt(0, 'RIFF') && isAt(8, 'WEBP') ? 'image/webp' : null;
}
