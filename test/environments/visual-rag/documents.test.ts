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
});
