import { type CodeExecutor, DEFAULT_LIMITS, openExecutor } from 'vf-search/execution';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { examineProposal, type Examiner, type ProposalRequest } from '../../../environments/self-play-code/examine-proposal.ts';
import { BANNED_WORDS } from '../../../environments/self-play-code/settings.ts';

let executor: CodeExecutor;
beforeAll(async () => {
  executor = await openExecutor('wasi', { workers: 1 });
});
afterAll(() => executor.close());

const signal = new AbortController().signal;

function examine(text: string, asked: Partial<ProposalRequest> = {}, options: Partial<Examiner> = {}) {
  const examiner: Examiner = {
    executor,
    // Enough for every program that ends, however busy the machine is.
    limits: { ...DEFAULT_LIMITS, seconds: 30 },
    prompt: 'full',
    banned: BANNED_WORDS,
    inputCount: 10,
    isHeldOut: async () => false,
    ...options,
  };
  return examineProposal(text, { kind: 'code_o', program: null, ...asked }, examiner, signal);
}

function reply(code: string, input = '1'): string {
  return `<think>so</think>\n<answer>\n\`\`\`python\n${code}\n\`\`\`\n\`\`\`input\n${input}\n\`\`\`\n</answer>`;
}

const reasonOf = async (text: string, ...rest: [Partial<ProposalRequest>?, Partial<Examiner>?]) => {
  const result = await examine(text, ...rest);
  return result.kind === 'invalid' ? result.reason : result.kind;
};

describe('examineProposal', () => {
  it('brings a task with its result as Python writes it, without comments', async () => {
    const found = await examine(reply('def g(a, b):\n    # adds\n    return {a: b}', "'x', [1, 2]"));
    expect(found).toMatchObject({ kind: 'valid', record: { kind: 'code_o', input: "'x', [1, 2]", output: "{'x': [1, 2]}" } });
    const { snippet } = (found as { record: { snippet: string } }).record;
    expect(snippet).toContain('def f(a, b)');
    expect(snippet).not.toContain('adds');
  });

  it('takes programs up to the given length, comments and docstrings not counted', async () => {
    const lines = ['"doc"', '# a comment', 'a += 1', 'a += 2', 'return a'];
    const code = `def f(a):\n    ${lines.join('\n    ')}`;
    expect(await reasonOf(reply(code), {}, { maxStatements: 2 })).toBe('valid');
    expect(await reasonOf(reply(code), {}, { maxStatements: 1 })).toBe('too_many_statements');
    const mini = '<code>def f(a):a=a+1;a=a+2;return a</code><input>1</input>';
    expect(await reasonOf(mini, {}, { prompt: 'mini', maxStatements: 2 })).toBe('valid');
    expect(await reasonOf(mini, {}, { prompt: 'mini', maxStatements: 1 })).toBe('too_many_statements');
    expect(await reasonOf(mini, {}, { prompt: 'mini', maxStatements: null })).toBe('valid');
  });

  it.each([
    ['no code', '<think>t</think><answer>hello</answer>', 'no_code'],
    ['no answer tag', '```python\ndef f(a):\n    return a\n```', 'format'],
    ['two functions', reply('def f(a):\n    return a\ndef g(a):\n    return a'), 'several_functions'],
    ['no input', '<think>t</think><answer>```python\ndef f(a):\n    return a\n```</answer>', 'no_input'],
    ['a syntax error', reply('def f(a):\n    return a +'), 'syntax'],
    ['mixed tabs', reply('def f(a):\n\tif a:\n        return 1\n\treturn a'), 'syntax'],
    ['a NUL', reply('def f(a):\n    return "\0"'), 'bad_characters'],
    ['half of a surrogate pair', reply('def f(a):\n    return "\ud800"'), 'bad_characters'],
    ['ten megabytes', reply(`def f(a):\n    return "${'x'.repeat(1e7)}"`), 'too_long'],
    ['an exception', reply('def f(a):\n    return 1 // 0'), 'raises'],
    ['an input that is none', reply('def f(a):\n    return a', 'undefined_name'), 'raises'],
    ['a value without a literal', reply('def f(a):\n    return object'), 'no_literal'],
    ['a function as value', reply('def f(a):\n    return f'), 'no_literal'],
    ['a value beyond the limit', reply('def f(a):\n    return "x" * 5000'), 'value_too_long'],
    ['all memory', reply('def f(a):\n    return len([0] * 10**9)'), 'raises'],
    ['too much output', reply('def f(a):\n    while True:\n        print("x" * 1000)'), 'output_too_long'],
    ['the order of a set of texts', reply("def f(a):\n    return list({'a', 'b', 'c', 'd', 'e', 'f', 'g'})"), 'not_deterministic'],
    ['the order of a set of two texts', reply("def f(a):\n    return list({'x', 'y'})"), 'not_deterministic'],
    ['an address', reply('def f(a):\n    return repr(object())'), 'no_literal'],
    // One bit of it may be the same under every seed.
    ['a byte of an address', reply('def f(a):\n    return id(f) // 16 % 256'), 'not_deterministic'],
    ['an input that depends on the order of a set', reply('def f(a):\n    return a', "list({'x', 'y'})"), 'not_deterministic'],
    ['an input that depends on chance', reply('def f(a):\n    return a', '__import__("os").urandom(3)'), 'not_deterministic'],
    ['a banned name in an input', reply('def f(a):\n    return a', '__import__("random").Random(1).random()'), 'banned'],
    ['a value that equals nothing', reply("def f(a):\n    return [float('nan')]"), 'no_literal'],
    ['a body that is a docstring', reply('def f(a):\n    "so"'), 'raises'],
  ])('refuses %s', async (_, text, reason) => {
    expect(await reasonOf(text)).toBe(reason);
  });

  it('refuses a loop without end', async () => {
    const text = reply('def f(a):\n    while True:\n        pass');
    expect(await reasonOf(text, {}, { limits: { ...DEFAULT_LIMITS, seconds: 0.3 } })).toBe('timeout');
  });

  it.each([
    'import random',
    'import os.path',
    'from os import path',
    'import os\nos.path',
    'from time import *',
    'import datetime as d',
    'import os, subprocess',
    'import os as o\no.path',
    'import os\no = os\no.path',
    'import os\ngetattr(os, "path")',
    'from os import path as p',
    '__import__("random")',
    '__import__(name="random")',
    '__import__("ran" + "dom")',
    '__import__("os").path',
    'load = __import__\nload("random")',
    'import importlib\nimportlib.import_module("random")',
    'from importlib import import_module as load\nload("os").path',
    'exec("import random")',
  ])('refuses a banned name: %s', async (line) => {
    const inside = line
      .split('\n')
      .map((each) => `    ${each}`)
      .join('\n');
    expect(await reasonOf(reply(`def f(a):\n${inside}\n    return a`))).toBe('banned');
  });

  it.each(['import os as o\no.sep', '__import__("math")', 'import importlib\nimportlib.import_module("math")', 'import collections.abc', 'time = a'])(
    'takes what is not banned: %s',
    async (line) => {
      const analysed = await executor.analyse(`def f(a):\n    ${line.replaceAll('\n', '\n    ')}\n    return a`, { banned: BANNED_WORDS, signal });
      expect(analysed).toMatchObject({ syntaxError: null, banned: [] });
    },
  );

  it('takes functions within the function, and none where upstream takes none', async () => {
    const text = reply('def h(n):\n    def g(m):\n        return m + 1\n    return g(n)');
    expect(await examine(text)).toMatchObject({ kind: 'valid', record: { snippet: expect.stringContaining('def f(n)') as string, output: '2' } });
    expect(await reasonOf(text, {}, { otherFunctions: 'none' })).toBe('several_functions');
    expect(await examine(reply('def f(a):\n    return g(a)\ndef g(a):\n    return -a'), {}, { otherFunctions: 'all' })).toMatchObject({
      record: { output: '-1' },
    });
  });

  it('runs what is shown, without the docstring', async () => {
    expect(await examine(reply('def f(a):\n    "so"\n    return f.__doc__'))).toMatchObject({ record: { output: 'None' } });
    expect(await reasonOf(reply('def f(a):\n    "so"'), { kind: 'code_e' })).toBe('raises');
  });

  it('takes Windows line ends and tabs', async () => {
    expect(await reasonOf(reply('def f(a):\r\n\tb = a\r\n\treturn b'))).toBe('valid');
  });

  it('takes a set, whose order does not count, and a program that imports what is allowed', async () => {
    expect(await examine(reply('import math\ndef f(a):\n    return {math.floor(a), 2}', '1.5'))).toMatchObject({ record: { output: '{1, 2}' } });
  });

  it('names the error of a code_e program', async () => {
    expect(await examine(reply('def f(a):\n    return a[3]', '[1]'), { kind: 'code_e' })).toMatchObject({
      record: { kind: 'code_e', output: 'IndexError' },
    });
    expect(await examine(reply('def f(a):\n    return a'), { kind: 'code_e' })).toMatchObject({ record: { output: 'NoError' } });
    expect(await reasonOf(reply('def f(a):\n    return "x" * 5000'), { kind: 'code_e' })).toBe('value_too_long');
  });

  it('runs a given program on ten inputs, and refuses nine', async () => {
    const inputs = (count: number) =>
      `<think>t</think><answer>${Array.from({ length: count }, (_, i) => `\`\`\`input\n${i}\n\`\`\`\n`).join('')}\`\`\`message\nsquares\n\`\`\`</answer>`;
    const asked = { kind: 'code_f', program: 'def f(a):\n    return a * a' } as const;
    expect(await examine(inputs(10), asked)).toMatchObject({
      record: { kind: 'code_f', message: 'squares', outputs: ['0', '1', '4', '9', '16', '25', '36', '49', '64', '81'] },
    });
    expect(await reasonOf(inputs(9), asked)).toBe('too_few_inputs');
  });

  it('refuses a held-out program', async () => {
    expect(await reasonOf(reply('def f(a):\n    return a'), {}, { isHeldOut: async (code) => code === 'def f(a):\n    return a' })).toBe('held_out');
  });

  it('reads mini proposals, and nothing around them', async () => {
    const mini = { prompt: 'mini', inputCount: 2 } as const;
    const text = "<code>def f(a):a=a+'3';return a</code><input>'1'</input>";
    expect(await examine(text, {}, mini)).toEqual({
      kind: 'valid',
      record: { kind: 'code_o', snippet: "def f(a):a=a+'3';return a", input: "'1'", output: "'13'", imports: [] },
    });
    expect(await reasonOf(`${text} `, {}, mini)).toBe('bad_format');
    const inputs = "<input>'1'</input><input>'2'</input><message>append</message>";
    expect(await examine(inputs, { kind: 'code_f', program: "def f(a):a=a+'3';return a" }, mini)).toMatchObject({
      record: { outputs: ["'13'", "'23'"] },
    });
  });
});
