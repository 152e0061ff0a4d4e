/** A page of the deck: shapes and words as SVG, and the box of every word. */
import type { Measure } from './measure.ts';

export const WIDTH = 1024;
export const HEIGHT = 768;

/** Share of the font size that a word's box reaches above its baseline. Its height is the font size. */
const ASCENT = 0.78;

/** A word and its box on the page in pixels: left, top, right, bottom. As wide as its ink, as high as its font. */
export interface PageWord {
  readonly text: string;
  readonly box: readonly [number, number, number, number];
  /** Words with the same number are on one line and belong together. */
  readonly line: number;
}

export interface TextStyle {
  /** Font size in pixels. @default 22 */
  readonly size?: number;
  /** @default '#222222' */
  readonly fill?: string;
  /** The point of the text that is at x. @default 'start' */
  readonly anchor?: 'start' | 'middle' | 'end';
}

export class Page {
  readonly id: string;
  readonly words: PageWord[] = [];
  readonly #measure: Measure;
  readonly #shapes: string[];
  #lines = 0;

  constructor(id: string, background: string, measure: Measure) {
    this.id = id;
    this.#measure = measure;
    this.#shapes = [`<rect width="${WIDTH}" height="${HEIGHT}" fill="${background}"/>`];
  }

  get svg(): string {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" font-family="DejaVu Sans">${this.#shapes.join('')}</svg>`;
  }

  /** Writes a line of text with its baseline at y, word by word, so that the box of each word encloses the drawn word. */
  text(x: number, y: number, text: string, { size = 22, fill = '#222222', anchor = 'start' }: TextStyle = {}): void {
    const words = text.split(' ').map((word) => ({ word, ink: this.#measure(word, size) }));
    const gap = size * 0.3;
    const width = words.reduce((sum, { ink }) => sum + ink.advance, 0) + gap * (words.length - 1);
    let left = anchor === 'start' ? x : anchor === 'middle' ? x - width / 2 : x - width;
    const line = this.#lines++;
    for (const { word, ink } of words) {
      const at = Math.round(left);
      this.#shapes.push(`<text x="${at}" y="${y}" font-size="${size}" fill="${fill}">${escaped(word)}</text>`);
      const top = Math.round(y - ASCENT * size);
      this.words.push({ text: word, box: [Math.floor(at + ink.left), top, Math.ceil(at + ink.right), top + size], line });
      left += ink.advance + gap;
    }
  }

  rect(x: number, y: number, width: number, height: number, fill: string): void {
    this.#shapes.push(`<rect x="${x}" y="${y}" width="${width}" height="${height}" fill="${fill}"/>`);
  }

  line([x1, y1]: readonly [number, number], [x2, y2]: readonly [number, number], stroke: string, width: number): void {
    this.#shapes.push(`<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="${stroke}" stroke-width="${width}"/>`);
  }
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
