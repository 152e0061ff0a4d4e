/** Sizes of images as Qwen's vision-language models see them. */

export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

export interface PixelRange {
  readonly minPixels: number;
  readonly maxPixels: number;
}

/** Sizes of images that a model sees unchanged: sides are multiples of `unit`, in pixels, and the area is within the range. */
export interface ImageSizes extends PixelRange {
  readonly unit: number;
}

/** Larger files of pictures are refused: a picture of a page has a few hundred kilobytes. */
export const MAX_IMAGE_BYTES = 64 * 2 ** 20;
/** Larger pictures are refused: decoded, one takes four bytes a pixel. */
export const MAX_IMAGE_PIXELS = 50_000_000;

/** The largest ratio of one side to the other, from Qwen's image processors. */
export const MAX_ASPECT = 200;

/**
 * The size to which Qwen's image processors resize an image: sides that are multiples of `unit`, within the range. As in transformers, which vLLM calls and
 * where a side can be rounded to 0 before it is enlarged; `smart_resize` of the package qwen_vl_utils rounds it to one unit at once, which gives a few very
 * small images another size.
 * @param options `unit`: patch size times merge size, 28 (Qwen2.5-VL) or 32 (Qwen3-VL)
 * @returns null if one side is more than 200 times the other, which the processors refuse, or if a side is 0
 */
export function smartResize({ width, height }: ImageSize, { unit, minPixels, maxPixels }: ImageSizes): ImageSize | null {
  if (!(Math.max(width, height) <= MAX_ASPECT * Math.min(width, height)) || Math.min(width, height) <= 0) return null;
  const round = (side: number) => roundHalfEven(side / unit) * unit;
  const [h, w] = [round(height), round(width)];
  if (h * w > maxPixels) {
    const beta = Math.sqrt((height * width) / maxPixels);
    const floor = (side: number) => Math.max(unit, Math.floor(side / beta / unit) * unit);
    return { width: floor(width), height: floor(height) };
  }
  if (h * w < minPixels) {
    const beta = Math.sqrt(minPixels / (height * width));
    const ceil = (side: number) => Math.ceil((side * beta) / unit) * unit;
    return { width: ceil(width), height: ceil(height) };
  }
  return { width: w, height: h };
}

/** Tokens of an image whose sides are multiples of `unit`. */
export function imageTokens({ width, height }: ImageSize, unit: number): number {
  return (width / unit) * (height / unit);
}

/** Python's `round`. */
function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}
