/** A box of the policy, from its text to the part of the page that it cuts out. All coordinates are pixels from the top left. */
import { pythonJson } from './python-values.ts';

/** x1, y1, x2, y2 on the picture that the policy saw. */
export type Box = readonly [number, number, number, number];

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** Left, top, right, bottom on the page, in whole pixels; right and bottom are outside. */
export type Area = readonly [number, number, number, number];

/**
 * The box that the text holds: a JSON list of four numbers that are at least 0; as in Python, true is 1 and false is 0, and a number can be infinite.
 * Null if it holds no such box. Never throws.
 */
export function parseBox(text: string): Box | null {
  const value = pythonJson(text);
  if (!Array.isArray(value) || value.length !== 4) return null;
  const numbers = value.map((one: unknown) => (typeof one === 'boolean' ? Number(one) : one));
  return numbers.every((one) => typeof one === 'number' && one >= 0) ? (numbers as unknown as Box) : null;
}

/** The box with `padding` pixels added on every side. */
export function padded([x1, y1, x2, y2]: Box, padding: number): Box {
  return [x1 - padding, y1 - padding, x2 + padding, y2 + padding];
}

/**
 * The part of the page that the box cuts out: scaled from the picture as it was shown, truncated to whole pixels, clamped to the page.
 * @returns null if nothing is left of it
 */
export function cropArea(box: Box, { shown, page }: { readonly shown: Size; readonly page: Size }): Area | null {
  const scaled = box.map((value, i) => {
    const [pageSide, shownSide] = i % 2 === 0 ? [page.width, shown.width] : [page.height, shown.height];
    return Math.trunc((pageSide * value) / shownSide);
  });
  if (!scaled.every((value) => Number.isFinite(value))) return null;
  const [left, top, right, bottom] = [
    Math.max(0, scaled[0]!),
    Math.max(0, scaled[1]!),
    Math.min(page.width, scaled[2]!),
    Math.min(page.height, scaled[3]!),
  ];
  return right <= left || bottom <= top ? null : [left, top, right, bottom];
}
