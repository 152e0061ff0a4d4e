import * as fc from 'fast-check';
import {
  parseCode,
  parseInputsMessage,
  parseMiniCode,
  parseMiniInputsMessage,
  parseMiniProposal,
  parseProposal,
} from 'vf-search/environments/self-play-code';
import { describe, expect, it } from 'vitest';

const program = (code: string, input = '1') => `Here:\n\`\`\`python\n${code}\n\`\`\`\n\`\`\`input\n${input}\n\`\`\``;
const fault = (name: string) => ({ kind: 'fault', fault: name });

describe('parseProposal', () => {
  it('reads the first program and input, and renames the function with its recursive calls', () => {
    const parsed = parseProposal(program('def grow(n):\n    return 1 if n < 1 else n * grow (n - 1)', '5'));
    expect(parsed).toEqual({ kind: 'program', code: 'def f(n):\n    return 1 if n < 1 else n * f(n - 1)', input: '5', output: '' });
  });

  it('takes a heading for the input where no fence has one', () => {
    expect(parseProposal("```python\ndef f(a):\n    return a\n```\n# Input: 'x'")).toMatchObject({ kind: 'program', input: "'x'" });
  });

  it.each([
    ['no code', '```input\n1\n```', 'no_function'],
    ['no fence at all', 'def f(a): return a', 'no_code'],
    ['no input', '```python\ndef f(a):\n    return a\n```', 'no_input'],
    ['no function', program('x = 1'), 'no_function'],
    ['two functions', program('def f(a):\n    return g(a)\ndef g(a):\n    return a'), 'several_functions'],
    ['an inner function', program('def f(a):\n    def g(b):\n        return b\n    return g(a)'), 'several_functions'],
    ['a NUL', program("def f(a):\n    return '\0'"), 'bad_characters'],
    ['half of a surrogate pair', program("def f(a):\n    return '\ud83d'"), 'bad_characters'],
    ['half of a surrogate pair in the input', program('def f(a):\n    return a', "'\udc00'"), 'bad_characters'],
    ['10 MB of program', program(`def f(a):\n    return '${'x'.repeat(10_000_000)}'`), 'too_long'],
    ['10 MB of input', program('def f(a):\n    return a', `'${'x'.repeat(10_000_000)}'`), 'too_long'],
  ])('refuses %s', (_, answer, expected) => {
    expect(parseProposal(answer)).toEqual(fault(expected));
  });

  it('keeps tabs and Windows line ends, which Python reads', () => {
    expect(parseProposal('```python\r\ndef g(a):\r\n\treturn a\r\n```\r\n```input\r\n1\r\n```')).toEqual({
      kind: 'program',
      code: 'def f(a):\r\n\treturn a',
      input: '1',
      output: '',
    });
  });

  it('refuses a program that tests itself, if it is asked to', () => {
    const answer = program('def f(a):\n    return a\nassert f(1) == 1');
    expect(parseProposal(answer)).toMatchObject({ kind: 'program' });
    expect(parseProposal(answer, { rejectTestInput: true })).toEqual(fault('test_input'));
  });

  it('reads hostile texts in linear time', () => {
    const size = 1_000_000;
    const texts = [
      '```'.repeat(size),
      `\`\`\`python${' '.repeat(10 * size)}`,
      program('def '.repeat(size / 10)),
      program('\n'.repeat(size)),
      '# Input:'.repeat(size / 10),
    ];
    const bodies = [
      `def f(a):\n${'\n'.repeat(60_000)}`,
      `def f(a): ${'f('.repeat(30_000)}`,
      `def g(a): ${'g '.repeat(30_000)}`,
      `def f(a): ${'input '.repeat(10_000)}`,
    ];
    // A quadratic reader would take hours.
    for (const text of texts) expect(parseProposal(text).kind).toBe('fault');
    for (const body of bodies) expect(parseProposal(program(body), { rejectTestInput: true }).kind).toMatch(/program|fault/);
  });

  it('never throws on any text', () => {
    const bits = fc.constantFrom('```', 'python', 'input', '\n', 'def ', 'f', '(a):', ' return ', '# Input:', 'é', '\0', '\ud800', ' ');
    fc.assert(
      fc.property(fc.array(bits), fc.boolean(), (parts, last) => {
        const parsed = parseProposal(parts.join(''), { codeLocation: last ? 'last' : 'first', rename: 'any_last', rejectMultipleFunctions: false });
        expect(parsed.kind).toMatch(/program|fault/);
      }),
    );
  });
});

describe('parseMiniProposal', () => {
  it('reads code and input', () => {
    const parsed = parseMiniProposal("<code>def f(a):a=a[::-1];return a</code><input>'314'</input>");
    expect(parsed).toEqual({ kind: 'program', code: 'def f(a):a=a[::-1];return a', input: "'314'", output: '' });
  });

  it.each([
    ["<code>def f(a):return a</code><input>'1'</input> ", 'bad_format'],
    ["<input>'1'</input><code>def f(a):return a</code>", 'bad_format'],
    ['<code>def f(a):return a</code>', 'bad_format'],
    ["<code>def f(a):return a</code><input>'1'", 'bad_format'],
    ["<code>def f(a):return a</code><input>'1'</input><input>'2'</input>", 'bad_format'],
    ["<code>def g(a):return a</code><input>'1'</input>", 'no_function'],
    ["<code>return a</code><input>'1'</input>", 'no_function'],
    ["<code>def f(a):return a\ndef f(a):return a</code><input>'1'</input>", 'several_functions'],
  ])('refuses %j', (reply, expected) => {
    expect(parseMiniProposal(reply)).toEqual(fault(expected));
  });
});

describe('parseInputsMessage', () => {
  const inputs = (count: number) => Array.from({ length: count }, (_, i) => `\`\`\`input\n${i}\n\`\`\`\n`).join('');

  it('reads the last ten inputs, and the message of a fence, a tag or a heading', () => {
    const ten = Array.from({ length: 10 }, (_, i) => String(i + 1));
    for (const message of ['```message\n m \n```', '<message> m </message>', '# Message: m'])
      expect(parseInputsMessage(inputs(11) + message)).toEqual({ kind: 'inputs', inputs: ten, message: 'm' });
  });

  it('refuses nine of ten inputs, and inputs without a message', () => {
    expect(parseInputsMessage(`${inputs(9)}<message>m</message>`)).toEqual(fault('too_few_inputs'));
    expect(parseInputsMessage(inputs(10))).toEqual(fault('no_message'));
  });
});

describe('parseMiniInputsMessage', () => {
  it('reads exactly the number of inputs that was asked for, and the message', () => {
    const four = "<input>'1'</input><input>'2'</input><input>'3'</input><input>'4'</input>";
    expect(parseMiniInputsMessage(`${four}<message>reverse append</message>`)).toEqual({
      kind: 'inputs',
      inputs: ["'1'", "'2'", "'3'", "'4'"],
      message: 'reverse append',
    });
    for (const reply of [four, `${four}<input>'5'</input><message>m</message>`, `<message>m</message>${four}`])
      expect(parseMiniInputsMessage(reply)).toEqual(fault('bad_format'));
  });
});

describe('parseCode', () => {
  it('takes the last block of any name, and keeps the names in it', () => {
    expect(parseCode('```python\nx\n```\n```\ndef g(a):\n    return a\n```')).toEqual({ kind: 'code', code: 'def g(a):\n    return a' });
    expect(parseCode('def f(a): return a')).toEqual(fault('no_code'));
  });
});

describe('parseMiniCode', () => {
  it('takes the whole answer', () => {
    expect(parseMiniCode('def f(a):return a')).toEqual({ kind: 'code', code: 'def f(a):return a' });
    expect(parseMiniCode('')).toEqual(fault('no_code'));
  });
});
