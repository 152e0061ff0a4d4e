import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rougeScores, rougeTokens } from '../../src/metrics/rouge.ts';

const words = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 150, size: 'max' });

function longestCommon(a: readonly string[], b: readonly string[]): number {
  let before = Array.from({ length: b.length + 1 }, () => 0);
  for (const word of a) {
    const row = [0];
    for (let j = 1; j <= b.length; j++) row.push(word === b[j - 1] ? before[j - 1]! + 1 : Math.max(before[j]!, row[j - 1]!));
    before = row;
  }
  return before.at(-1)!;
}

describe('rougeTokens', () => {
  it('stems words of four letters and more, and has no words in other scripts', () => {
    expect(rougeTokens('Dying news, his 1999 naïve cats 东京')).toEqual(['die', 'news', 'his', '1999', 'na', 've', 'cat']);
    expect(rougeTokens('Dying news', { stem: false })).toEqual(['dying', 'news']);
    expect(rougeTokens('')).toEqual([]);
  });
});

describe('rougeScores', () => {
  it('gives ROUGE-L of the table that defines the longest common subsequence', () => {
    fc.assert(
      fc.property(words, words, (a, b) => {
        const [precision, recall] = [longestCommon(a, b) / Math.max(a.length, 1), longestCommon(a, b) / Math.max(b.length, 1)];
        const expected = precision + recall === 0 ? 0 : (2 * precision * recall) / (precision + recall);
        expect(rougeScores(a, b).rougeL).toBeCloseTo(expected, 12);
      }),
    );
  });

  it('counts a repeated word as often as both have it', () => {
    expect(rougeScores(['a', 'a', 'a'], ['a', 'b'])).toEqual({ rouge1: 0.4, rouge2: 0, rougeL: 0.4 });
    expect(rougeScores([], ['a'])).toEqual({ rouge1: 0, rouge2: 0, rougeL: 0 });
  });
});
