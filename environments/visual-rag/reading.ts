/** The words that can be read on a picture of a page: words inside it, at the size at which they are shown. */
import type { ImageRef } from 'vf-search/environment-kit';
import type { Area, Size } from './boxes.ts';
import type { DocumentPage } from './documents.ts';

/** A word on a shown picture. */
export interface ShownWord {
  /** Null if it is too small to read. */
  readonly text: string | null;
  /** Left, top, right, bottom on the shown picture, in whole pixels. */
  readonly box: Area;
  /** Words with the same number are on one line. */
  readonly line: number;
}

/** A picture that the environment showed: a page, or a part cut out of one. */
export interface Shown {
  readonly page: string;
  /** The part that was cut out, in the page's pixels; null for the whole page. */
  readonly area: Area | null;
  /** Size at which it was shown. */
  readonly size: Size;
  /** In `image` mode: the picture. */
  readonly image?: ImageRef;
}

/**
 * The words whose centres are inside the picture, with their boxes on it.
 * @param options `legiblePx`: the lowest height in shown pixels at which a word can be read
 */
export function readWords({ words, width, height }: DocumentPage, { area, size }: Shown, { legiblePx }: { readonly legiblePx: number }): ShownWord[] {
  const [left, top, right, bottom] = area ?? [0, 0, width, height];
  const [x, y] = [size.width / (right - left), size.height / (bottom - top)];
  return words.flatMap(({ text, box, line }): ShownWord[] => {
    const [centreX, centreY] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
    if (centreX < left || centreX >= right || centreY < top || centreY >= bottom) return [];
    const shown: Area = [
      clamp(Math.floor((box[0] - left) * x), size.width),
      clamp(Math.floor((box[1] - top) * y), size.height),
      clamp(Math.ceil((box[2] - left) * x), size.width),
      clamp(Math.ceil((box[3] - top) * y), size.height),
    ];
    return [{ text: (box[3] - box[1]) * y >= legiblePx ? text : null, box: shown, line }];
  });
}

export interface ShownLine {
  readonly words: readonly ShownWord[];
  readonly box: Area;
  /** With `?` for words that cannot be read. */
  readonly text: string;
}

/** The words by lines, in reading order as the page lists them. */
export function linesOf(words: readonly ShownWord[]): ShownLine[] {
  return [...Map.groupBy(words, ({ line }) => line).values()].map((line) => ({
    words: line,
    box: [
      Math.min(...line.map(({ box }) => box[0])),
      Math.min(...line.map(({ box }) => box[1])),
      Math.max(...line.map(({ box }) => box[2])),
      Math.max(...line.map(({ box }) => box[3])),
    ],
    text: line.map(({ text }) => text ?? '?').join(' '),
  }));
}

/** A picture as text: its size, then every line with its box. */
export function pictureText(kind: 'page' | 'crop', size: Size, words: readonly ShownWord[]): string {
  const lines = linesOf(words).map(({ box, text }) => `[${box.join(', ')}] ${text}`);
  return [`${kind === 'page' ? 'Page' : 'Crop'}, ${size.width} x ${size.height} pixels:`, ...(lines.length === 0 ? ['(no words)'] : lines)].join(
    '\n',
  );
}

/** Reads a text of `pictureText`; null for any other text. */
export function parsePictureText(
  text: string,
): { readonly kind: 'page' | 'crop'; readonly size: Size; readonly lines: readonly { readonly box: Area; readonly text: string }[] } | null {
  const [first = '', ...rest] = text.split('\n');
  const header = /^(Page|Crop), (\d+) x (\d+) pixels:$/.exec(first);
  if (header === null) return null;
  const lines = rest.flatMap((line) => {
    const found = /^\[(\d+), (\d+), (\d+), (\d+)\] (.*)$/.exec(line);
    return found === null ? [] : [{ box: found.slice(1, 5).map(Number) as unknown as Area, text: found[5]! }];
  });
  return { kind: header[1] === 'Page' ? 'page' : 'crop', size: { width: Number(header[2]), height: Number(header[3]) }, lines };
}

function clamp(value: number, most: number): number {
  return Math.min(Math.max(0, value), most);
}
