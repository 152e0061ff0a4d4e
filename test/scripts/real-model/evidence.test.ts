import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { emCheck, normalizeAnswer, observation } from 'vf-search/environments/search-r1';
import { findEvidence, shownPassages } from '../../../scripts/real-model/evidence.ts';

const passage = (text: string, number = 1, title = 'A Title') => ({ number, title, text });

describe('shownPassages', () => {
  it('reads what search-r1 shows', () => {
    const shown = observation([
      { contents: '"Mona Lisa"\nIt hangs in Paris. (It is small.)' },
      { contents: 'Plain (title)\nDoc 3(Title: "x") is text.' },
    ]);
    expect(shownPassages(shown)).toEqual([
      { number: 1, title: 'Mona Lisa', text: 'It hangs in Paris. (It is small.)' },
      { number: 2, title: 'Plain (title)', text: 'Doc 3(Title: "x") is text.' },
    ]);
    expect(shownPassages(observation([]))).toEqual([]);
  });
});

describe('findEvidence', () => {
  it('takes the sentence that shares most words with the question, then the first', () => {
    const passages = [passage('Paris is old. The tower stands in Paris.'), passage('The tower stands in Paris too.', 2)];
    expect(findEvidence('where does the tower stand', ['Paris'], passages)).toEqual({
      passage: 1,
      title: 'A Title',
      quote: 'The tower stands in Paris.',
      answer: 'Paris',
    });
  });

  it('finds answers as whole words only, whatever their letters, and spells them as the passage does', () => {
    expect(findEvidence('q', ['art'], [passage('He started a party.')])).toBeNull();
    expect(findEvidence('q', ['the u.s.'], [passage('It was the US, then.')])?.answer).toBe('the u.s.');
    expect(findEvidence('q', ['LOUVRE museum'], [passage('In the Louvre Museum.')])?.answer).toBe('Louvre Museum');
    expect(findEvidence('q', ['the'], [passage('It is the one.')])).toBeNull();
    expect(findEvidence('q', ['x'], [])).toBeNull();
  });

  it('cuts a long sentence around the answer', () => {
    const words = Array.from({ length: 60 }, (_, i) => `w${i}`);
    const quote = findEvidence('q', ['w40'], [passage(`${words.join(' ')}.`)])!.quote.split(' ');
    expect(quote).toHaveLength(24);
    expect(quote.indexOf('w40')).toBeGreaterThan(12);
    expect(quote.indexOf('w40')).toBeLessThan(23);
  });

  it('{ the quote holds the answer, and the answer is an exact match of a golden one }', () => {
    const word = fc.constantFrom('the', 'Big', 'red', 'fox', 'U.S.', 'the-cat', 'a', '(born', '1996)', 'Fox.', 'Dr.', 'é');
    const words = fc.array(word, { minLength: 1, maxLength: 80 }).map((parts) => parts.join(' '));
    fc.assert(
      fc.property(
        words,
        fc.array(
          words.map((text) => text.slice(0, 12)),
          { minLength: 1, maxLength: 3 },
        ),
        (text, golden) => {
          const found = findEvidence('big fox', golden, [passage(text)]);
          if (found === null) return;
          expect(text.replaceAll(/\s+/g, ' ')).toContain(found.quote);
          expect(` ${normalizeAnswer(found.quote)} `).toContain(` ${normalizeAnswer(found.answer)} `);
          expect(emCheck(found.answer, golden)).toBe(1);
        },
      ),
      { numRuns: 500 },
    );
  });
});
