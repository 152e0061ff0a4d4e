import { describe, expect, it } from 'vitest';
import { afterThoughts, answerEnds, outsideThoughts, splitThoughts } from '../../src/core/text-outside-thoughts.ts';

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

describe('splitThoughts', () => {
  it.each([
    ['<think>\nso\n</think>\n\nIt is grey.', 'so', 'It is grey.'],
    ['[THINK]so[/THINK]grey', 'so', 'grey'],
    ['</think>grey', '', 'grey'],
    ['<think></think>', '', ''],
    ['<think>a</think> I wrote </think> myself', 'a', 'I wrote </think> myself'],
  ])('takes %j apart', (text, thoughts, rest) => {
    expect(splitThoughts(text)).toEqual({ thoughts, rest });
  });

  it.each([
    'Hello. <think>x</think> World',
    'A <think>b</think> C <think>d</think> E',
    'Use the tag </think> to close. The answer is 4',
    '<reasoning>r</reasoning>\n<answer>4</answer>',
    '<thought>t</thought> Done',
    '```xml\n<think>a</think>\n```\nDone',
    '<think>never closed',
    ' plain ',
  ])('leaves %j as it is', (text) => {
    for (const mayBeOpen of [false, true]) expect(splitThoughts(text, { mayBeOpen })).toEqual({ thoughts: '', rest: text });
  });

  it('ends thoughts that the template of a server has opened in a tag of its own line', () => {
    const open = 'so\n</think>\n\ngrey';
    expect(splitThoughts(open, { mayBeOpen: true })).toEqual({ thoughts: 'so', rest: 'grey' });
    expect(splitThoughts('so</think>\ngrey', { mayBeOpen: true })).toEqual({ thoughts: 'so', rest: 'grey' });
    expect(splitThoughts(open)).toEqual({ thoughts: '', rest: open });
  });
});

describe('answerEnds', () => {
  it('gives the ends of the last answers', () => {
    expect(answerEnds('<answer> a </answer> \\boxed{b} c')).toEqual({ tagged: 20, boxed: 30 });
    expect(answerEnds('</answer> <answer> \\boxed{')).toEqual({ tagged: -1, boxed: -1 });
  });
});
