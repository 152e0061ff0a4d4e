import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { codePoints, replaceArticles, skipWhitespace, splitWords, strip, stripCharacters, withoutWhitespace } from '../../src/metrics/python-text.ts';

const SPACES = '\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000';

describe('strip, splitWords, withoutWhitespace', () => {
  it('know Python’s whitespace, which is not JavaScript’s', () => {
    expect(strip(`${SPACES}x${SPACES}`)).toBe('x');
    expect(splitWords(`a${SPACES}b`)).toEqual(['a', 'b']);
    expect(withoutWhitespace(`a${SPACES}b`)).toBe('ab');
    for (const other of ['\ufeff', '\u200b', '\u180e', '\0']) {
      expect(strip(`${other}x${other}`)).toBe(`${other}x${other}`);
      expect(splitWords(`a${other}b`)).toHaveLength(1);
      expect(withoutWhitespace(`a${other}b`)).toHaveLength(3);
    }
  });

  it('agree with each other on any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', 'é', '😀', ...SPACES.split('')) }), (text) => {
        expect(splitWords(text).join('')).toBe(withoutWhitespace(text));
        expect(strip(text)).toBe(text.slice(skipWhitespace(text, 0), text.length - skipWhitespace(Array.from(text).toReversed().join(''), 0)));
      }),
    );
  });
});

describe('stripCharacters', () => {
  it('takes any of the characters off both ends', () => {
    expect(['((a)', 'a', ')(', '', '(a b)('].map((text) => stripCharacters(text, '()'))).toEqual(['a', 'a', '', '', 'a b']);
  });
});

describe('replaceArticles', () => {
  it('replaces whole words alone, bounded as Python bounds words', () => {
    expect(replaceArticles('the cat an_a éa a the.')).toBe('  cat an_a éa    .');
  });
});

describe('codePoints', () => {
  it('counts a pair once and a lone surrogate too', () => {
    expect([...codePoints('a😀\ud83d!\ude00')]).toEqual([97, 0x1f600, 0xd83d, 33, 0xde00]);
    expect(codePoints('')).toHaveLength(0);
  });
});
