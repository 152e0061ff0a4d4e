import fc from 'fast-check';
import { emCheck, normalizeAnswer, subemCheck } from 'vf-search/environments/search-r1';
import { describe, expect, it } from 'vitest';

describe('normalizeAnswer', () => {
  const word = fc.constantFrom('the', 'A', 'an', 'cat', 'The-cat', 'a.', '_', '3', 'é', '\u001c', '\u0085', ' ', "o'", '北京', '\ufeff', 'ΑΣ.');
  const words = fc.array(word, { maxLength: 12 }).map((w) => w.join(' '));

  it.each([
    ['any code units', fc.string({ unit: 'binary', maxLength: 40 })],
    ['articles, punctuation and Python’s whitespace', words],
  ])('is idempotent, without ASCII punctuation {%s}', (_name, texts) => {
    fc.assert(
      fc.property(texts, (text) => {
        const once = normalizeAnswer(text);
        expect(normalizeAnswer(once)).toBe(once);
        expect(once).not.toMatch(/[!-/:-@[-`{-~]/);
      }),
      { numRuns: 200 },
    );
  });

  it('deletes punctuation before articles', () => {
    expect(normalizeAnswer('the-cat')).toBe('thecat');
    expect(normalizeAnswer('a_the')).toBe('athe');
    expect(normalizeAnswer('The U.S.A. an')).toBe('usa');
  });

  it('knows Python’s word characters: a combining mark is not one', () => {
    expect(normalizeAnswer('a\u0301')).toBe('\u0301');
    expect(normalizeAnswer('éa aé 北a a北')).toBe('éa aé 北a a北');
  });

  it('collapses Python’s whitespace and keeps a byte order mark', () => {
    expect(normalizeAnswer('x\u001c\u0085\u3000y')).toBe('x y');
    expect(normalizeAnswer('\ufeffx')).toBe('\ufeffx');
  });
});

describe('emCheck', () => {
  it('accepts one answer or many', () => {
    expect(emCheck('The Paris!', 'paris')).toBe(1);
    expect(emCheck('Paris', ['London', 'paris'])).toBe(1);
    expect(emCheck('Pariss', ['paris'])).toBe(0);
    expect(emCheck('', [])).toBe(0);
  });

  it('lets answers that normalise to nothing match each other, as upstream does', () => {
    expect(emCheck('The', ['!!!'])).toBe(1);
  });
});

describe('subemCheck', () => {
  it('looks for the golden answer inside the prediction', () => {
    expect(subemCheck('in Paris, France', ['paris'])).toBe(1);
    expect(subemCheck('par', ['paris'])).toBe(0);
    expect(subemCheck('anything', ['the'])).toBe(1);
  });
});
