import { describe, expect, it } from 'vitest';
import {
  broadcastOverTokens,
  countTokens,
  maskSequences,
  maskUnusableLogProbs,
  sumCounts,
  trainedTokens,
} from '../../../src/trainer/losses/token-mask.ts';

const layout = { offsets: Int32Array.of(0, 3, 3, 5, 6), mask: Uint8Array.of(1, 0, 1, 0, 0, 1) };

describe('trainedTokens', () => {
  it('lists the positions with mask 1 by sequence', () => {
    const { positions, starts } = trainedTokens(layout);
    expect({ positions: [...positions], starts: [...starts] }).toEqual({ positions: [0, 2, 5], starts: [0, 2, 2, 2, 3] });
  });
});

describe('countTokens', () => {
  it('counts trained tokens, sequences, and sequences that have one; parts add up', () => {
    const counts = { tokens: 3, sequences: 4, trainedSequences: 2 };
    expect(countTokens(layout)).toEqual(counts);
    expect(sumCounts([counts, counts])).toEqual({ tokens: 6, sequences: 8, trainedSequences: 4 });
    expect(sumCounts([])).toEqual({ tokens: 0, sequences: 0, trainedSequences: 0 });
  });
});

describe('broadcastOverTokens', () => {
  it('repeats one number over its sequence', () => {
    expect([...broadcastOverTokens([1, 2, 3, 4], layout.offsets)]).toEqual([1, 1, 1, 3, 3, 4]);
    expect(() => broadcastOverTokens([1], layout.offsets)).toThrow('There are 4 sequences, but 1 values');
  });
});

describe('maskSequences', () => {
  it('drops whole sequences and leaves the given mask alone', () => {
    expect([...maskSequences(layout, (i) => i === 0)]).toEqual([0, 0, 0, 0, 0, 1]);
    expect([...layout.mask]).toEqual([1, 0, 1, 0, 0, 1]);
  });
});

describe('maskUnusableLogProbs', () => {
  it('drops and counts trained tokens without a real log-prob, vLLM’s -9999 among them', () => {
    const { mask, dropped } = maskUnusableLogProbs(new Uint8Array(7).fill(1), Float64Array.of(-1, -9999, NaN, -Infinity, Infinity, -800, 0));
    expect({ mask: [...mask], dropped }).toEqual({ mask: [1, 0, 0, 0, 0, 1, 1], dropped: 4 });
    expect(maskUnusableLogProbs(Uint8Array.of(0), Float64Array.of(NaN)).dropped).toBe(0);
  });
});
