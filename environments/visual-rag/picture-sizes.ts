/** The size at which the environment shows a picture. */
import type { PixelRange } from 'vf-search/environment-kit';
import type { Size } from './boxes.ts';

/** Sides of pictures are multiples of it if neither an argument nor the policy sets another unit: Qwen2.5-VL's. */
export const DEFAULT_UNIT = 28;
/** 256 to 512 squares of 28 pixels: the size at which upstream shows every page and crop. */
export const SHOWN_PIXELS: PixelRange = { minPixels: 256 * 28 * 28, maxPixels: 512 * 28 * 28 };

/**
 * The size at which a picture is shown: scaled down to `maxPixels`, then up to `minPixels`, sides truncated. A very long picture can end up with more
 * pixels than `maxPixels`, as in upstream, or with a side of 0, by which upstream would divide.
 */
export function fitPixels({ width, height }: Size, { minPixels, maxPixels }: PixelRange): Size {
  let size = { width, height };
  if (size.width * size.height > maxPixels) size = scaled(size, Math.sqrt(maxPixels / (size.width * size.height)));
  const pixels = size.width * size.height;
  if (pixels > 0 && pixels < minPixels) size = scaled(size, Math.sqrt(minPixels / pixels));
  return size;
}

function scaled({ width, height }: Size, factor: number): Size {
  return { width: Math.trunc(width * factor), height: Math.trunc(height * factor) };
}
