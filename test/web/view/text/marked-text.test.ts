import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { piecesOf, plainText } from '../../../../web/view/text/marked-text.ts';
import { blocksOf } from '../../../../web/view/text/text-blocks.ts';
import { spansOf } from '../../../../web/view/text/tagged-spans.ts';

/** Text with the characters that hide, reorder or break it. */
const hostile = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.string({ unit: 'binary' }),
      fc.constantFrom('\u202e', '\u0000', '\u200b', '\ud800', '\r', '\r\n', '\u{e0041}', '<script>', '</think>', '<think>'),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));

const plainOf = (text: string) =>
  piecesOf(text)
    .filter((piece) => typeof piece === 'string')
    .join('');

const joined = (text: string) =>
  spansOf(text)
    .map((span) => span.text)
    .join('');

describe('piecesOf', () => {
  it('shows every control and bidirectional character as a mark, and keeps the rest in order', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const plain = plainOf(text);
        expect(plain).not.toMatch(/(?![\n\r\t])[\p{Cc}\p{Cs}]|[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\ufeff]/u);
        expect(plain.isWellFormed()).toBe(true);
        expect(piecesOf(text).length === 0).toBe(text === '');
        const marks = piecesOf(text).filter((piece) => typeof piece !== 'string').length;
        expect(Array.from(text).length).toBe(Array.from(plain).length + marks);
      }),
    );
  });

  it('leaves line feeds, tabs, emoji with joiners and Windows line ends alone', () => {
    for (const text of ['a\n\tb', 'a\r\nb', '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}', '\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645'])
      expect(piecesOf(text)).toEqual([text]);
  });

  it('names a mark by its code and, where it has one, by its name', () => {
    expect(piecesOf('a\u202eb\u0007')).toEqual([
      'a',
      { symbol: 'U+202E', name: 'U+202E right-to-left override' },
      'b',
      { symbol: 'BEL', name: 'U+0007' },
    ]);
    expect(plainText('a\u202eb')).toBe('a[U+202E]b');
  });
});

describe('spansOf', () => {
  it('loses and moves no character', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        expect(joined(text)).toBe(text);
      }),
    );
  });

  it('knows the innermost open tag', () => {
    expect(spansOf('<think>so <b>x</b></think><answer> y')).toEqual([
      { text: '<think>', within: 'think', isTag: true },
      { text: 'so ', within: 'think', isTag: false },
      { text: '<b>', within: 'b', isTag: true },
      { text: 'x', within: 'b', isTag: false },
      { text: '</b>', within: 'b', isTag: true },
      { text: '</think>', within: 'think', isTag: true },
      { text: '<answer>', within: 'answer', isTag: true },
      { text: ' y', within: 'answer', isTag: false },
    ]);
  });
});

describe('blocksOf', () => {
  it('cuts a text of any length into blocks that join to it, none of them much longer than 8,000 characters, no character in two', () => {
    fc.assert(
      fc.property(hostile, fc.integer({ min: 0, max: 3000 }), (text, times) => {
        const long = text.repeat(times);
        const blocks = blocksOf(long);
        expect(blocks.join('')).toBe(long);
        for (const block of blocks) {
          expect(block.length).toBeLessThanOrEqual(8001);
          expect(block.isWellFormed() || !long.isWellFormed()).toBe(true);
        }
      }),
      { numRuns: 40 },
    );
  });
});
