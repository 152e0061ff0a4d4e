/** The policy's view of a page: its picture, or its words with their boxes. Both modes show the same parts at the same sizes. */
import { EnvironmentError, type EnvResponse } from 'vf-search';
import { type ImageSizes, MAX_ASPECT, type PixelRange, smartResize } from 'vf-search/environment-kit';
import type { Area, Size } from './boxes.ts';
import type { DocumentPage } from './documents.ts';
import type { PageSource } from './page-source.ts';
import { DEFAULT_UNIT, fitPixels, SHOWN_PIXELS } from './picture-sizes.ts';
import type { Observations } from './prompt.ts';
import { pictureText, readWords, type Shown, type ShownWord } from './reading.ts';

export interface ViewerOptions {
  readonly pages: PageSource;
  /** @default 'ocr' */
  readonly observations?: Observations;
  /** The least height, in pixels of the shown picture, at which a word can be read. @default 9 */
  readonly legiblePx?: number;
  /** Sides of shown pictures are multiples of this; 0 for any. @default null: the policy's own unit, or 28 if that is unknown */
  readonly align?: number | null;
  /** The run trains: a picture that the policy's server would resize is an error. @default false */
  readonly trains?: boolean;
  /** Bounds of a shown picture's pixels. @default SHOWN_PIXELS */
  readonly shownPixels?: PixelRange;
}

export class PageViewer {
  readonly #options: ViewerOptions;

  constructor(options: ViewerOptions) {
    this.#options = options;
  }

  /**
   * Makes a page, or a part of it, ready to be shown.
   * @param options `sizes`: the sizes that the policy's server does not change; null if they are unknown
   * @returns null if one side is more than 200 times the other, which no model takes
   */
  async view(
    page: DocumentPage,
    area: Area | null,
    { sizes, signal }: { readonly sizes: ImageSizes | null; readonly signal: AbortSignal },
  ): Promise<Shown | null> {
    const source = area === null ? page : { width: area[2] - area[0], height: area[3] - area[1] };
    const size = this.#sizeOf(source, sizes);
    if (size === null) return null;
    const { pages, observations = 'ocr' } = this.#options;
    if (observations === 'ocr') return { page: page.id, area, size };
    return { page: page.id, area, size, image: await pages.pictures!.picture({ page: page.id, area, size }, signal) };
  }

  observation({ area, size, image }: Shown, words: readonly ShownWord[]): EnvResponse {
    if (image === undefined) return { observation: pictureText(area === null ? 'page' : 'crop', size, words) };
    return { messages: [{ role: 'user', content: [{ type: 'image', image }] }] };
  }

  /** The words that can be read on what was shown. */
  async read(shown: Shown, signal: AbortSignal): Promise<ShownWord[]> {
    return readWords(await this.#options.pages.page(shown.page, signal), shown, { legiblePx: this.#options.legiblePx ?? 9 });
  }

  #sizeOf(source: Size, sizes: ImageSizes | null): Size | null {
    const { shownPixels = SHOWN_PIXELS, align = null, trains = false, observations } = this.#options;
    const unit = align ?? sizes?.unit ?? DEFAULT_UNIT;
    if (Math.max(source.width, source.height) > MAX_ASPECT * Math.min(source.width, source.height)) return null;
    const size = shortened(aligned(fitPixels(source, shownPixels), unit));
    if (sizes === null) return size;
    // The server would resize the picture, and boxes would refer to another size than the policy saw. Twice, because a size that was shortened can need it again.
    const fitting = resized(resized(size, sizes), sizes);
    if (align === null) return fitting;
    if (trains && observations === 'image' && (fitting.width !== size.width || fitting.height !== size.height))
      throw new EnvironmentError(
        `align ${align} shows pictures of ${size.width} × ${size.height} pixels, which the policy server resizes: its unit is ${sizes.unit}. Leave align out to train.`,
        { endsRun: true },
      );
    return size;
  }
}

/** Both sides rounded to the nearest multiples of `unit`, at least one. */
function aligned({ width, height }: Size, unit: number): Size {
  if (unit === 0) return { width: Math.max(1, width), height: Math.max(1, height) };
  const side = (value: number) => Math.max(1, Math.round(value / unit)) * unit;
  return { width: side(width), height: side(height) };
}

/** The size at which the server shows a picture. The server leaves a picture of that size as it is. */
function resized(size: Size, sizes: ImageSizes): Size {
  return shortened(smartResize(size, sizes)!);
}

/** The longer side cut to 200 times the other: rounding can make a picture whose sides differ 137 times or more too long for a server. */
function shortened({ width, height }: Size): Size {
  return { width: Math.min(width, MAX_ASPECT * height), height: Math.min(height, MAX_ASPECT * width) };
}
