import { loadRecords } from 'vf-search/environment-kit';
import { type Area, type DocumentPage, documentPages, fitPixels, loadEnvironment, readAnswer, SHOWN_PIXELS } from 'vf-search/environments/visual-rag';
import { beforeAll, describe, expect, it } from 'vitest';
import { readWords, type ShownWord } from '../../../environments/visual-rag/reading.ts';
import type { VisualRow } from '../../../environments/visual-rag/rows.ts';

let pages: ReadonlyMap<string, DocumentPage>;
const rows: VisualRow[] = [];
beforeAll(async () => {
  pages = documentPages((await loadRecords({ dataset: 'deck-mini', split: 'pages' })).records);
  for (const split of ['train', 'test']) {
    const environment = await loadEnvironment({ data_split: split });
    rows.push(...environment.eval);
    await environment.close();
  }
});

function seen(page: DocumentPage, area: Area | null): ShownWord[] {
  const source = area === null ? page : { width: area[2] - area[0], height: area[3] - area[1] };
  return readWords(page, { page: page.id, area, size: fitPixels(source, SHOWN_PIXELS) }, { legiblePx: 9 });
}

/** The rows of deck-mini that the reader answers, by kind, from the golden pages as `see` shows them. */
function answered(see: (page: DocumentPage) => (readonly ShownWord[])[]): Record<string, string> {
  const right = (row: VisualRow) =>
    readAnswer(
      row.info.question,
      row.info.golden_pages.flatMap((id) => see(pages.get(id)!)),
    ) === row.answer;
  return Object.fromEntries(
    Object.entries(Object.groupBy(rows, ({ info }) => info.kind!)).map(([kind, all]) => [kind, `${all!.filter(right).length} of ${all!.length}`]),
  );
}

describe('readAnswer', () => {
  it('answers deck-mini from the golden pages as they are shown, but for the small print', () => {
    expect(answered((page) => [seen(page, null)])).toEqual({
      title: '8 of 8',
      table: '48 of 48',
      chart: '24 of 24',
      'small print': '0 of 24',
      list: '16 of 16',
      'two pages': '16 of 16',
      duplicate: '8 of 8',
    });
  });

  it('answers the small print from crops of half a page', () => {
    const halves = (page: DocumentPage) => [0, 384].map((top) => seen(page, [0, top, 1024, top + 384]));
    expect(answered(halves)).toMatchObject({ 'small print': '24 of 24' });
  });

  it('answers nothing without evidence, and nothing that it cannot read', () => {
    expect(readAnswer('What was the revenue?', [])).toBe('');
    expect(readAnswer('What was the revenue?', [[{ text: null, box: [0, 0, 9, 9], line: 0 }]])).toBe('');
  });

  it('looks at a word as often for each figure of a large picture as of a small one', () => {
    let looks = 0;
    /** One column, in which every second line is a figure below its label. */
    const column = (figures: number) =>
      Array.from({ length: 2 * figures }, (_, i): ShownWord => ({
        text: i % 2 === 0 ? `Label${i}` : `${i}00`,
        box: [0, 100 * i, 400, 100 * i + 10],
        get line() {
          looks += 1;
          return i;
        },
      }));
    /** For a figure and a word. */
    const meanLooks = (figures: number) => {
      looks = 0;
      expect(readAnswer('What is Label8?', [column(figures)])).toBe('900');
      return looks / (figures * 2 * figures);
    };
    expect(meanLooks(160)).toBeLessThan(1.1 * meanLooks(40));
  });

  it('takes no year, no number of a list and no number of a page for a figure', () => {
    const words = (texts: readonly string[], top: number, line: number) =>
      texts.map((text, i): ShownWord => ({ text, box: [i * 50, top, i * 50 + 40, top + 20], line }));
    const page = [...words(['4.', 'The', 'revenue', 'of', '2023', 'was', '1,234.'], 0, 0), ...words(['Acme', '·', '7'], 700, 1)];
    expect(readAnswer('What was the revenue?', [page])).toBe('1,234');
    expect(readAnswer('When was the revenue?', [page])).toBe('2023');
  });
});
