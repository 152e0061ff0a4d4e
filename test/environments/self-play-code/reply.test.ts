import * as fc from 'fast-check';
import { extractAnswer, extractThought, extractValue, formatReward, parseReply } from 'vf-search/environments/self-play-code';
import { describe, expect, it } from 'vitest';

describe('parseReply', () => {
  it('reads thought and answer of a reply that keeps the format, with quotation marks around it', () => {
    expect(parseReply('"<think>t</think>\n<answer> 5 </answer>" ')).toEqual({ thought: 't', answer: '5', isWellFormed: true });
  });

  it.each([
    ['no tags', '5', { thought: null, answer: '', isWellFormed: false }],
    ['an answer alone', '<answer>5</answer>', { thought: null, answer: '5', isWellFormed: false }],
    ['an answer that stays open', '<think>t</think><answer>5', { thought: 't', answer: '5', isWellFormed: false }],
    ['text between the blocks', '<think>t</think>so<answer>5</answer>', { thought: 't', answer: '5', isWellFormed: false }],
    ['text before the thought', 'Well: <think>t</think><answer>5</answer>', { thought: 't', answer: '5', isWellFormed: false }],
    ['text after the answer, which upstream accepts', '<think>t</think><answer>5</answer> done', { thought: 't', answer: '5', isWellFormed: true }],
  ])('%s', (_, reply, expected) => {
    expect(parseReply(reply)).toEqual(expected);
  });

  it('in the mini style wants exactly one thought and one answer, and nothing else', () => {
    expect(parseReply('<think>a;b;</think><answer>5</answer>', 'mini')).toEqual({ thought: 'a;b;', answer: '5', isWellFormed: true });
    const broken = [
      '<think>t</think><answer>5</answer> ',
      ' <think>t</think><answer>5</answer>',
      '<answer>5</answer><think>t</think>',
      '<think>t</think><answer>5',
      '<think>t<think></think><answer>5</answer>',
      '<think>t</think><answer>5</answer><answer>5</answer>',
      '<think>t</think><answer><answer>5</answer></answer>',
      '',
    ];
    for (const reply of broken) expect(parseReply(reply, 'mini')).toEqual({ thought: null, answer: '', isWellFormed: false });
  });

  it('never throws on any text', () => {
    const bits = fc.constantFrom(
      '<think>',
      '</think>',
      '<answer>',
      '</answer>',
      '\\boxed{',
      '}',
      '```input',
      '```',
      '\n',
      ' ',
      'the output is',
      '<output>',
      'output(',
      ')',
      '\ud800',
      '\0',
    );
    fc.assert(
      fc.property(fc.array(bits), (parts) => {
        const text = parts.join('');
        const { answer } = parseReply(text);
        const values = [extractValue(answer, 'code_i'), extractValue(text, 'code_o'), extractAnswer(text, 'boxed'), extractThought(text)];
        expect(values.every((value) => typeof value === 'string')).toBe(true);
        expect([0, 1]).toContain(formatReward(text, 'boxed'));
      }),
    );
  });
});

describe('extractValue', () => {
  it('takes the last fence, else a heading, a call, a tag or a sentence, else the whole answer', () => {
    expect(extractValue('```output\n1\n```\n```output\n2\n```', 'code_o')).toBe('2');
    expect(extractValue('# Output: 3', 'code_o')).toBe('3');
    expect(extractValue("output('a')", 'code_o')).toBe("'a'");
    expect(extractValue('<output>4', 'code_o')).toBe('4');
    expect(extractValue('The output is 5.', 'code_o')).toBe('5');
    expect(extractValue('The input is 5.', 'code_o')).toBe('The input is 5.');
    expect(extractValue(' 6', 'code_i')).toBe(' 6');
  });

  it('reads 10 MB of hostile text in linear time', () => {
    const size = 1_000_000;
    const texts = [
      ' '.repeat(size),
      '```input '.repeat(size / 10),
      '<output>'.repeat(size / 10),
      'input ('.repeat(size / 10),
      '\n'.repeat(10 * size),
      '# Output:'.repeat(size / 10),
    ];
    // A quadratic reader would take hours.
    for (const text of texts) expect(typeof extractValue(text, 'code_o')).toBe('string');
    expect(formatReward(`<think>${'</think> '.repeat(size / 10)}`)).toBe(0);
  });
});
