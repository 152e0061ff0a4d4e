import { describe, expect, it } from 'vitest';
import { boxed, greedyBoxed } from '../../src/metrics/boxed.ts';

describe('greedyBoxed()', () => {
  it('takes the last line that has a box, from its first box to its last brace', () => {
    expect(greedyBoxed('\\boxed{a}\n\\boxed{b} or \\boxed{c}\nend')).toBe('b} or \\boxed{c');
    expect(greedyBoxed('\n\\boxed{a}')).toBe('a');
    expect(greedyBoxed('\\boxed{(\\text{a})}', { isAnswer: true })).toBe('a');
  });

  it.each(['', '\n', '\n\n', '\nx', '\n\\boxed{', '}\n', '\n}\n'])('returns an empty string for %j, which has no box', (text) => {
    expect(greedyBoxed(text)).toBe('');
    expect(boxed(text)).not.toContain('\n');
  });
});
