import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { analyze, termOf } from '../../../src/retrieval/bm25/english-analyzer.ts';
import { scanWords } from '../../../src/retrieval/bm25/word-breaks.ts';

const lucene = JSON.parse(readFileSync(new URL('lucene-analyzer.json', import.meta.url), 'utf8')) as { cases: [string, string[]][] };

function words(text: string): string[] {
  const found: string[] = [];
  scanWords(text, { word: (word) => void found.push(word) });
  return found;
}

describe('analyze', () => {
  it('gives the terms that Lucene gives, over scripts, marks, emoji and hostile text', () => {
    expect(lucene.cases.length).toBeGreaterThan(400);
    for (const [text, terms] of lucene.cases) expect([text, analyze(text)]).toEqual([text, terms]);
  });

  it('leaves out stop words and empty text', () => {
    expect(analyze('The cat is on the mat, and it was not there.')).toEqual(['cat', 'mat']);
    expect(['', ' \n\t', '...', '\u0000\ufffd', '___', '\ud800\udc00'.slice(0, 1)].flatMap(analyze)).toEqual([]);
  });

  it('finds only words that stand in the text, in order, none empty or beyond 255 units { any UTF-16 }', () => {
    const units = fc.array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constantFrom(0x5f, 0x200d, 0x27, 0x5d0, 0x61, 0xd83d, 0xde00, 0xfe0f)));
    fc.assert(
      fc.property(units, (codes) => {
        const text = String.fromCharCode(...codes);
        let at = 0;
        for (const word of words(text)) {
          expect(word.length).toBeGreaterThan(0);
          expect(word.length).toBeLessThanOrEqual(255);
          at = text.indexOf(word, at) + word.length;
          expect(at).toBeGreaterThanOrEqual(word.length);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('takes steps in proportion to the text, however it is built', () => {
    // Half a million units each: a quadratic scan would take minutes.
    for (const piece of ['a', '_', '\u200d', '_\u0301', '\u0000', '\ud800', '#\ufe0f', '😀\u200d', "א'", `${'_'.repeat(255)} `, 'a.', '1,']) {
      const found = words(piece.repeat(500_000 / piece.length));
      expect(found.every((word) => word.length <= 255)).toBe(true);
    }
    expect(words('a'.repeat(500_000)).length).toBe(Math.ceil(500_000 / 255));
  });

  it('never cuts a surrogate pair at the longest word', () => {
    const [first, second] = words(`${'a'.repeat(254)}𝐀b`);
    expect([first, second]).toEqual(['a'.repeat(254), '𝐀b']);
  });
});

describe('termOf', () => {
  it('cuts a possessive before lower-casing, of any apostrophe', () => {
    expect(["Plato's", 'PLATO’S', 'plato\uff07s', 'platos', "s's"].map(termOf)).toEqual(['plato', 'plato', 'plato', 'plato', 's']);
  });

  it('lower-cases one character at a time, as Java does', () => {
    expect(termOf('İZMİR')).toBe('izmir');
    expect(termOf('ΟΔΟΣ')).toBe('οδοσ');
  });
});
