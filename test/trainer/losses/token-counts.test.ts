import { describe, expect, it } from 'vitest';
import { broadcastOverTokens, checkLayout, countLengths, countTokens } from '../../../src/trainer/losses/token-counts.ts';

const offsets = Int32Array.of(0, 2, 2, 3, 3);

describe('countTokens', () => {
  it('counts tokens, sequences, and sequences that have a token', () => {
    expect(countTokens(offsets)).toEqual({ tokens: 3, sequences: 4, trainedSequences: 2 });
    expect(countTokens(Int32Array.of(0))).toEqual({ tokens: 0, sequences: 0, trainedSequences: 0 });
  });

  it('counts the tokens of each role where roles are given', () => {
    const counts = countTokens(offsets, ['a', 'b', 'a', 'c']);
    expect(counts).toEqual({
      tokens: 3,
      sequences: 4,
      trainedSequences: 2,
      tokensByRole: new Map([
        ['a', 3],
        ['b', 0],
        ['c', 0],
      ]),
    });
  });
});

describe('countLengths', () => {
  it('is the same from the lengths', () => {
    expect(countLengths([2, 0, 1, 0])).toEqual(countTokens(offsets));
    expect(countLengths([2, 0, 1, 0], ['a', 'a', 'b', 'b'])).toEqual(countTokens(offsets, ['a', 'a', 'b', 'b']));
  });
});

describe('broadcastOverTokens', () => {
  it('repeats one number over its sequence', () => {
    expect([...broadcastOverTokens([1, 2, 3, 4], offsets)]).toEqual([1, 1, 3]);
    expect(() => broadcastOverTokens([1], offsets)).toThrow('There are 4 sequences, but 1 values');
  });
});

describe('checkLayout', () => {
  const layout = (at: Int32Array, tokens = 3) => ({ offsets: at, logProbs: new Float64Array(tokens) });
  const counts = { tokens: 3, sequences: 4, trainedSequences: 2 };

  it.each([
    ['a first offset other than 0', [1, 3], 3],
    ['an end before the last token', [0, 2], 3],
    ['a falling offset', [0, 3, 2, 3], 3],
    ['no offset', [], 0],
  ])('refuses %s', (_, wrong, tokens) => {
    expect(() => checkLayout(layout(Int32Array.from(wrong), tokens), counts)).toThrow('offsets must rise from 0 to the number of tokens');
  });

  it('refuses counts that are smaller than this part alone', () => {
    expect(() => checkLayout(layout(offsets), counts)).not.toThrow();
    expect(() => checkLayout(layout(offsets), { ...counts, tokens: 2 })).toThrow('this part alone has 3 tokens and 4 sequences; got 2 and 4');
    expect(() => checkLayout(layout(offsets), { ...counts, sequences: 3 })).toThrow('got 3 and 3');
  });

  it('allows more branches than rollouts, each no longer than its rollout', () => {
    const branches = (...lengths: number[]) => ({ ...layout(offsets), lengths: Int32Array.from(lengths) });
    expect(() => checkLayout(branches(3, 3, 3, 3), { ...counts, sequences: 1 })).not.toThrow();
    const own = Array.from({ length: 4 }, (_, i) => offsets[i + 1]! - offsets[i]!);
    const most = own.indexOf(Math.max(...own));
    expect(() => checkLayout(branches(...own.with(most, own[most]! - 1)), counts)).toThrow(
      `lengths[${most}] is ${own[most]! - 1}, but the sequence has ${own[most]!} tokens`,
    );
  });
});
