import { ConfigError } from 'vf-search';
import { describe, expect, it } from 'vitest';
import { documentPages } from '../../../environments/visual-rag/documents.ts';

const pagesWith = (...boxes: readonly (readonly number[])[]) =>
  documentPages([
    { fields: { id: 'report_3', width: 100, height: 50, words: boxes.map((box, i) => [`w${i}`, ...box, 0]) }, place: 'Line 1 of pages.jsonl' },
  ]);

describe('documentPages', () => {
  it('cuts a box that sticks out to the page, and keeps any other', () => {
    const boxes = [
      [-3, -0.5, 20, 10],
      [90, 45, 100.4, 60],
      [1, 2, 3, 4],
      [0, 0, 100, 50],
    ];
    expect(
      pagesWith(...boxes)
        .get('report_3')!
        .words.map(({ box }) => box),
    ).toEqual([
      [0, 0, 20, 10],
      [90, 45, 100, 50],
      [1, 2, 3, 4],
      [0, 0, 100, 50],
    ]);
  });

  it.each([
    ['right of the page', [100, 0, 120, 10]],
    ['above the page', [0, -20, 10, 0]],
    ['far away', [1e308, 1e308, 1.1e308, 1.1e308]],
    ['with its sides exchanged', [20, 0, 10, 10]],
    ['without area', [5, 5, 5, 9]],
  ])('refuses a box %s and names page and word', (_, box) => {
    const opening = () => pagesWith([1, 2, 3, 4], box);
    expect(opening).toThrow(ConfigError);
    expect(opening).toThrow(`Line 1 of pages.jsonl: the page "report_3" has 100 × 50 pixels, but its word "w1" has the box ${JSON.stringify(box)};`);
  });

  it.each([
    [1_000_000, 1, 'one side may be at most 200 times the other'],
    [20, 4001, 'one side may be at most 200 times the other'],
    [1e200, 1e200, 'a page may have at most 50 million'],
    [10_000, 5001, 'a page may have at most 50 million'],
  ])('refuses a page of %d × %d pixels, as its picture would be', (width, height, limit) => {
    const opening = () => documentPages([{ fields: { id: 'long_1', width, height, words: [] }, place: 'pages.jsonl:1' }]);
    expect(opening).toThrow(ConfigError);
    expect(opening).toThrow(`pages.jsonl:1: the page "long_1" has ${width} × ${height} pixels; ${limit}`);
  });

  it('takes pages up to 50 million pixels and 200 to 1', () => {
    const fields = (id: string, width: number, height: number) => ({ fields: { id, width, height, words: [] }, place: id });
    expect(documentPages([fields('large', 10_000, 5000), fields('wide', 4000, 20), fields('high', 1, 200)]).size).toBe(3);
  });
});
