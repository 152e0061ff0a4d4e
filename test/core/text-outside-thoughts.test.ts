import { describe, expect, it } from 'vitest';
import { afterThoughts, answerEnds, outsideThoughts } from '../../src/core/text-outside-thoughts.ts';

describe('outsideThoughts', () => {
  it('blanks thoughts and keeps places', () => {
    const text = 'opened </think> a <think> b </think> c [THINK] d';
    expect(outsideThoughts(text)).toBe(`${' '.repeat(15)} a ${' '.repeat(18)} c ${' '.repeat(9)}`);
  });
});

describe('afterThoughts', () => {
  it.each([
    ['<think>{"score": 0}?</think>\n{"score": 1}', '\n{"score": 1}'],
    ['{"score": 0}, hm </think> {"score": 1}', '{"score": 0}, hm </think> {"score": 1}'],
    ['maybe {"score": 0}</think>{"score": 1}', '{"score": 1}'],
    ['[THINK] hm [/THINK] yes', ' yes'],
    ['I quote <think> a </think>', 'I quote <think> a </think>'],
    ['{"reason": "it wrote </think> twice"}', '{"reason": "it wrote </think> twice"}'],
  ])('%j leaves %j', (text, rest) => {
    expect(afterThoughts(text)).toBe(rest);
  });
});

describe('answerEnds', () => {
  it('gives the ends of the last answers', () => {
    expect(answerEnds('<answer> a </answer> \\boxed{b} c')).toEqual({ tagged: 20, boxed: 30 });
    expect(answerEnds('</answer> <answer> \\boxed{')).toEqual({ tagged: -1, boxed: -1 });
  });
});
