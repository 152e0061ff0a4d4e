/** Pages of documents: their sizes and, with a word sidecar, every word and its box. */
import { ConfigError, type Passage } from 'vf-search';
import { type DataRecord, MAX_ASPECT, MAX_IMAGE_PIXELS } from 'vf-search/environment-kit';
import type { Area, Size } from './boxes.ts';

/** A word and its box on the page, in the page's pixels. */
export interface PageWord {
  readonly text: string;
  readonly box: Area;
  /** Words with the same number are on one line. */
  readonly line: number;
}

export interface DocumentPage extends Size {
  readonly id: string;
  readonly words: readonly PageWord[];
}

/**
 * The pages of a word sidecar, by name: records of `{id, width, height, words: [[text, left, top, right, bottom, line], ...]}`; further fields are allowed. A box
 * that sticks out of its page, as some OCR gives them, is cut to the page.
 * Throws ConfigError with the place of the record.
 */
export function documentPages(records: readonly DataRecord[]): ReadonlyMap<string, DocumentPage> {
  const pages = new Map<string, DocumentPage>();
  for (const { fields, place } of records) {
    const page = readPage(fields);
    if (typeof page === 'string') throw new ConfigError(`${place}: ${page}`);
    if (pages.has(page.id)) throw new ConfigError(`${place}: another line describes the page ${JSON.stringify(page.id)}; keep one of them`);
    pages.set(page.id, page);
  }
  return pages;
}

/** Every page as a passage for a search by words: its first line is the title. */
export function pagePassages(pages: ReadonlyMap<string, DocumentPage>): Passage[] {
  return [...pages.values()].map(({ id, words }) => {
    const [title = '', ...lines] = [...Map.groupBy(words, ({ line }) => line).values()].map((line) => line.map(({ text }) => text).join(' '));
    return { id, contents: `"${title}"\n${lines.join('\n')}` };
  });
}

/** The page that a record describes, or the fault of the record. */
function readPage({ id, width, height, words }: Readonly<Record<string, unknown>>): DocumentPage | string {
  if (typeof id !== 'string' || id === '') return '"id" must be the name of a page';
  if (!isSide(width) || !isSide(height)) return `"width" and "height" must be pixels, integers of at least 1, got ${JSON.stringify([width, height])}`;
  const sides = `the page ${quoted(id)} has ${width} × ${height} pixels`;
  if (width * height > MAX_IMAGE_PIXELS) return `${sides}; a page may have at most ${MAX_IMAGE_PIXELS / 1e6} million`;
  if (Math.max(width, height) > MAX_ASPECT * Math.min(width, height)) return `${sides}; one side may be at most ${MAX_ASPECT} times the other`;
  if (!Array.isArray(words)) return '"words" must be a list';
  const wrong = words.find((word) => !isWord(word));
  if (wrong !== undefined) return `a word must be [text, left, top, right, bottom, line], got ${JSON.stringify(wrong)?.slice(0, 100)}`;
  const placed = (words as WordRow[]).map(([text, left, top, right, bottom, line]): PageWord => ({
    text,
    box: [Math.max(0, left), Math.max(0, top), Math.min(width, right), Math.min(height, bottom)],
    line,
  }));
  const lost = placed.findIndex(({ box: [left, top, right, bottom] }) => left >= right || top >= bottom);
  if (lost === -1) return { id, width, height, words: placed };
  const [text, ...box] = (words as WordRow[])[lost]!;
  return `${sides}, but its word ${quoted(text)} has the box ${JSON.stringify(box.slice(0, 4))}; a box is left, top, right, bottom, and some of it must be on the page`;
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}

type WordRow = [string, number, number, number, number, number];

function isWord(value: unknown): value is WordRow {
  return Array.isArray(value) && value.length === 6 && typeof value[0] === 'string' && value.slice(1).every((one) => Number.isFinite(one));
}

function isSide(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 1;
}
