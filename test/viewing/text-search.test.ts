import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { RolloutIndex } from '../../src/viewing/rollout-index.ts';
import { searchText } from '../../src/viewing/text-search.ts';
import { TextSearches } from '../../src/viewing/text-searches.ts';
import { resultLine, type WrittenRow } from './written-runs.ts';

const root = mkdtempSync(join(tmpdir(), 'text-search-'));
afterAll(() => rmSync(root, { recursive: true }));

let files = 0;
function written(lines: readonly string[]): RolloutIndex {
  const name = `${files++}.jsonl`;
  writeFileSync(join(root, name), lines.map((line) => `${line}\n`).join(''));
  return new RolloutIndex({ directory: root, name, isPacked: false });
}

const LETTERS = ['a', 'B', 'ß', 'É', 'é', 'Σ', 'ς', 'σ', 'İ', '"', '\\', '/', '\n', '\u0007', '東', '😀', ' '];
const words = fc.array(fc.constantFrom(...LETTERS), { maxLength: 8 }).map((letters) => letters.join(''));
const folded = (text: string) => text.toLowerCase().replaceAll('ς', 'σ');
const ascii = (line: string) => line.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

describe('searchText', () => {
  it('finds { any text, in any case } in prompts, responses and answers, and nowhere else, however the writer escaped it', async () => {
    const row = fc.record({ question: words, response: words, answer: words, isAscii: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(
        fc.array(row, { minLength: 1, maxLength: 6 }),
        words.filter((text) => text !== ''),
        async (rows, needle) => {
          const index = written(
            rows.map(({ isAscii, ...one }, i) => (isAscii ? ascii : String)(resultLine({ group: String(i), ...one, more: { model: needle } }))),
          );
          const table = await index.refresh();
          const expected = rows.flatMap(({ question, response, answer }, i) =>
            [question, response, answer].some((text) => folded(text).includes(folded(needle))) ? [i] : [],
          );
          expect([...(await searchText(index, table, { text: needle }))]).toEqual(expected);
        },
      ),
      { numRuns: 80 },
    );
  });

  it('ends when the caller is gone', async () => {
    const index = written(Array.from({ length: 100 }, (_, i) => resultLine({ group: String(i) })));
    const table = await index.refresh();
    await expect(searchText(index, table, { text: 'x', signal: AbortSignal.abort() })).rejects.toThrow(/abort/i);
  });

  it('passes over lines that are no JSON', async () => {
    const index = written([
      `${resultLine({ group: 'a', response: 'needle' }).slice(0, -1)},"x":tru}`,
      resultLine({ group: 'b', response: 'needle' }),
    ]);
    const table = await index.refresh();
    const group = table.name('group');
    expect([...(await searchText(index, table, { text: 'needle' }))].map(group)).toEqual(['b']);
  });
});

describe('TextSearches', () => {
  it('finds in lines that were appended since the same search', async () => {
    const rows = (group: string): WrittenRow => ({ group, response: `needle ${group}` });
    const index = written([resultLine(rows('a'))]);
    const searches = new TextSearches();
    expect((await searches.find(index, await index.refresh(), 'NEEDLE', undefined)).size).toBe(1);
    appendFileSync(join(root, index.file.name), `${resultLine(rows('b'))}\n${resultLine({ group: 'c' })}\n`);
    const table = await index.refresh();
    const group = table.name('group');
    expect([...(await searches.find(index, table, 'needle', undefined))].map(group)).toEqual(['a', 'b']);
  });
});
