import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseToolCalls, textBeforeCalls, type ToolCallFormat, toolCallAttempts, type ToolSpec } from '../../src/core/tool-calls.ts';

const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../golden/tool-calls.json'), 'utf8')) as {
  readonly tools: readonly ToolSpec[];
  readonly texts: readonly { readonly format: ToolCallFormat; readonly text: string; readonly calls: readonly object[] }[];
};
const FORMATS: readonly ToolCallFormat[] = ['hermes', 'qwen3-coder', 'llama3'];
const search: ToolSpec = {
  name: 'search',
  description: 'Finds passages.',
  parameters: {
    type: 'object',
    properties: {
      query: { type: 'string' },
      count: { type: 'integer' },
      weight: { type: 'number' },
      exact: { type: 'boolean' },
      filter: { type: 'object' },
      years: { type: 'array' },
      after: { type: ['integer', 'null'] },
      either: { anyOf: [{ type: 'integer' }, { type: 'string' }] },
      anything: {},
    },
  },
};

const xml = (name: string, parameters: Readonly<Record<string, string>>) =>
  `<tool_call>\n<function=${name}>\n${Object.entries(parameters)
    .map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`)
    .join('')}</function>\n</tool_call>`;

describe('integers beyond 2^53 in calls', () => {
  it.each([
    ['hermes', '<tool_call>{"name":"read","arguments":{"id":9007199254740993}}</tool_call>'],
    ['llama3', '{"name":"read","parameters":{"id":-9007199254740993}}'],
  ] as const)('are refused in %s where rounding would name another id', (format, text) => {
    expect(parseToolCalls(text, format)).toEqual([
      { problem: expect.stringMatching(/^the call cannot be read: the integer -?9007199254740993 is beyond 2\^53; write it as text$/) },
    ]);
    expect(parseToolCalls(text.replace('993', '992'), format)).toMatchObject([{ name: 'read' }]);
  });
});

describe('parseToolCalls', () => {
  it.each(golden.texts.map((one) => [one.format, one.text, one.calls] as const))(
    'finds the calls that vLLM finds, of %s in %j',
    (format, text, calls) => {
      expect(parseToolCalls(text, format, golden.tools)).toEqual(calls);
    },
  );

  describe('of hermes', () => {
    it('reads every block, and an unclosed last one', () => {
      const text = 'I look.\n<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n</tool_call>\n<tool_call>{"name": "b"}';
      expect(parseToolCalls(text)).toEqual([
        { name: 'a', args: { x: 1 } },
        { name: 'b', args: {} },
      ]);
    });

    it('reports arguments under the key of another format, rather than calling without them', () => {
      expect(parseToolCalls('<tool_call>{"name": "a", "parameters": {"x": 1}}</tool_call>')).toEqual([
        { problem: 'the call has "parameters" in place of "arguments"' },
      ]);
    });
  });

  describe('of qwen3-coder', () => {
    it('reads values of several lines as they stand between the tags', () => {
      const text = `First.\n${xml('write', { path: 'a.py', text: 'def f():\n\n    return "<b>"\n' })}`;
      expect(parseToolCalls(text, 'qwen3-coder')).toEqual([{ name: 'write', args: { path: 'a.py', text: 'def f():\n\n    return "<b>"\n' } }]);
    });

    it.each(['<tool_call>', '</tool_call>', 'Write <tool_call> and </tool_call>.'])('keeps %s within a value', (text) => {
      expect(parseToolCalls(`${xml('write', { text })}\n${xml('now', {})}`, 'qwen3-coder')).toEqual([
        { name: 'write', args: { text } },
        { name: 'now', args: {} },
      ]);
    });

    it('ends a function without a closing tag where its call ends', () => {
      const open = '<tool_call>\n<function=a>\n<parameter=x>\n1\n</parameter>\n';
      for (const between of ['</tool_call>\n', '']) {
        expect(parseToolCalls(`${open}${between}${xml('b', {})}`, 'qwen3-coder')).toEqual([
          { name: 'a', args: { x: '1' } },
          { name: 'b', args: {} },
        ]);
      }
      expect(parseToolCalls(`${open}</tool_call> Done.`, 'qwen3-coder')).toEqual([{ name: 'a', args: { x: '1' } }]);
    });

    it('gives values the types of the schema, and leaves what does not fit as text', () => {
      const values = {
        query: '12',
        count: '12',
        weight: '0.5',
        exact: 'False',
        filter: '{"a": [1]}',
        years: '[1999, "x"]',
        after: 'null',
        either: 'soon',
        anything: '{"b": 2}',
        unknown: '7',
      };
      expect(parseToolCalls(xml('search', values), 'qwen3-coder', [search])).toEqual([
        {
          name: 'search',
          args: {
            query: '12',
            count: 12,
            weight: 0.5,
            exact: false,
            filter: { a: [1] },
            years: [1999, 'x'],
            after: null,
            either: 'soon',
            anything: { b: 2 },
            unknown: '7',
          },
        },
      ]);
      expect(parseToolCalls(xml('search', { count: 'many', weight: '0x10', years: '[1', exact: 'maybe' }), 'qwen3-coder', [search])).toEqual([
        { name: 'search', args: { count: 'many', weight: '0x10', years: '[1', exact: 'maybe' } },
      ]);
    });

    it('takes a value as JSON where the schema refers to another, and as an object or a list where it has no type', () => {
      const properties = { filter: { $ref: '#/$defs/Filter' }, count: { $ref: '#/$defs/Count' }, five: { const: 5 }, free: {}, id: {} };
      const tool: ToolSpec = { ...search, parameters: { type: 'object', properties } };
      const values = { filter: '{"a": 1}', count: '12', five: '5', free: '[1]', id: '12' };
      expect(parseToolCalls(xml('search', values), 'qwen3-coder', [tool])).toEqual([
        { name: 'search', args: { filter: { a: 1 }, count: 12, five: 5, free: [1], id: '12' } },
      ]);
    });

    it('leaves every value a string without the tools', () => {
      expect(parseToolCalls(xml('search', { count: '12' }), 'qwen3-coder')).toEqual([{ name: 'search', args: { count: '12' } }]);
    });

    it('accepts functions without a wrapper, several in one, and tags left open', () => {
      const name = (text: string) => parseToolCalls(text, 'qwen3-coder').map((call) => ('name' in call ? [call.name, call.args] : call));
      expect(name('<function=a><parameter=x>1</parameter></function>')).toEqual([['a', { x: '1' }]]);
      expect(name('<tool_call><function=a></function><function=b></function></tool_call>')).toEqual([
        ['a', {}],
        ['b', {}],
      ]);
      expect(name('<tool_call>\n<function=a>\n<parameter=x>\n1\n<parameter=y>\n2\n')).toEqual([['a', { x: '1', y: '2' }]]);
      expect(name('<tool_call><function=a><parameter=x>1<tool_call><function=b></function></tool_call>')).toEqual([
        ['a', { x: '1' }],
        ['b', {}],
      ]);
    });

    it('keeps the tags of calls in a value that is closed, as vLLM does', () => {
      const hostile = 'ends with </tool_call>, begins with <tool_call>, <tool_call></tool_call>';
      expect(parseToolCalls(`${xml('a', { x: hostile, y: '</tool_call>' })}\n${xml('b', {})}`, 'qwen3-coder')).toEqual([
        { name: 'a', args: { x: hostile, y: '</tool_call>' } },
        { name: 'b', args: {} },
      ]);
    });

    it('says what is wrong with a call', () => {
      const problems = (text: string) => parseToolCalls(text, 'qwen3-coder').map((call) => ('problem' in call ? call.problem : call));
      expect(problems('<tool_call>{"name": "a"}</tool_call>')).toEqual(['the call has no <function=name>']);
      expect(problems('<function=a</function>')).toEqual(['the name of the function is not closed by >']);
      expect(problems('<function=></function>')).toEqual(['the call has no function name']);
      expect(problems('<function=a><parameter=x</parameter></function>')).toEqual(['the name of a parameter is not closed by >']);
    });

    it('keeps a parameter named __proto__ an argument like any other', () => {
      const calls = parseToolCalls(xml('a', { ['__proto__']: '1' }), 'qwen3-coder');
      expect(calls.map((call) => 'args' in call && Object.keys(call.args))).toEqual([['__proto__']]);
    });
  });

  describe('of llama3', () => {
    it('reads one object or several, after a tag, separated by ; or lines, with text around them, in a fence', () => {
      const [a, b] = ['{"name": "a", "parameters": {"x": {"y": "}{"}}}', '{"name": "b", "parameters": {}}'];
      const both = [
        { name: 'a', args: { x: { y: '}{' } } },
        { name: 'b', args: {} },
      ];
      expect(parseToolCalls(a, 'llama3')).toEqual(both.slice(0, 1));
      for (const text of [`${a}; ${b}`, `<|python_tag|>${a};${b}`, `${a}\n${b}`, `I call:\n${a}\nand ${b}.`, `\`\`\`json\n${a}\n${b}\n\`\`\``]) {
        expect({ text, calls: parseToolCalls(text, 'llama3') }).toEqual({ text, calls: both });
      }
    });

    it('accepts "arguments" for "parameters"', () => {
      expect(parseToolCalls('{"name": "a", "arguments": {"x": 1}}', 'llama3')).toEqual([{ name: 'a', args: { x: 1 } }]);
    });

    it.each(['I use {x: ', 'A set {1, 2 and then\n', '{don"t} ', '{"no" "JSON": ', 'It is 5" wide { and "so: ', '{"a" b} ', '{{{ ', '}{'])(
      'finds a call after the stray %j',
      (prose) => {
        const call = '{"name": "a", "parameters": {"x": "}{"}}';
        const b = { name: 'b', args: {} };
        expect(parseToolCalls(`${prose}${call}`, 'llama3')).toEqual([{ name: 'a', args: { x: '}{' } }]);
        expect(parseToolCalls(`${prose}${call}} and {"name": "b", "parameters": {}}`, 'llama3')).toEqual([{ name: 'a', args: { x: '}{' } }, b]);
      },
    );

    it('finds the call that ends any text of stray braces and quotes', () => {
      const prose = fc.string({ unit: fc.constantFrom('{', '}', '"', ' ', 'a', '1', ',', '\n'), maxLength: 40 });
      fc.assert(
        fc.property(prose, (text) => {
          expect(parseToolCalls(`${text}\n{"name": "b", "parameters": {}}`, 'llama3').at(-1)).toEqual({ name: 'b', args: {} });
        }),
        { numRuns: 500 },
      );
    });

    it('treats a call that is not closed as one attempt, whatever it holds', () => {
      const calls = parseToolCalls('{"name": "a", "parameters": {"next": {"name": "b", "parameters": {}}', 'llama3');
      expect(calls).toEqual([{ problem: expect.stringMatching(/^the call is not JSON/) }]);
    });

    it('takes no other object for a call', () => {
      for (const text of ['{"answer": 4}', '{"name": "Alice"}', 'f(x) = {x}', '{', 'no braces', '{"a": {"name": "b", "parameters": {}}}']) {
        expect({ text, calls: parseToolCalls(text, 'llama3') }).toEqual({ text, calls: [] });
      }
    });

    it('says what is wrong with a call', () => {
      const problems = (text: string) => parseToolCalls(text, 'llama3').map((call) => ('problem' in call ? call.problem : call));
      expect(problems('{"name": "a", "parameters": {"x": }}')).toEqual([expect.stringMatching(/^the call is not JSON/)]);
      expect(problems('{"name": "a", "parameters": {"x": 1')).toEqual([expect.stringMatching(/^the call is not JSON/)]);
      expect(problems('{"name": "a", "parameters": [1]}')).toEqual(['"parameters" is not an object']);
      expect(problems('{"name": 1, "parameters": {}}')).toEqual(['the call has no "name"']);
    });
  });

  it.each(FORMATS)('never throws and gives a name with arguments or a problem, of %s', (format) => {
    const piece = fc.oneof(
      fc.constantFrom('<tool_call>', '</tool_call>', '<function=', '</function>', '<parameter=', '</parameter>', '>', '{', '}', '"', '\\', ';'),
      fc.constantFrom('{"name": "a", "parameters": {"x": 1}}', '{"name": "a", "arguments": {}}', '{"name": ', 'a', '\n', '<|python_tag|>'),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        for (const call of parseToolCalls(pieces.join(''), format, [search])) {
          const problem = 'problem' in call ? call.problem : 'none';
          const { name = '', args = {} } = 'problem' in call ? {} : call;
          expect([problem === '', typeof name, typeof args, Array.isArray(args)]).toEqual([false, 'string', 'object', false]);
        }
      }),
      { numRuns: 500 },
    );
  });

  it.each(
    [
      '<tool_call>',
      '<function=',
      '<function=a><parameter=',
      '<parameter=',
      '{',
      '{"name": ',
      '{"name": "a", "parameters": {',
      '"',
      '\\"',
      '{}',
    ].flatMap((piece) => FORMATS.map((format) => [piece, format] as const)),
  )('reads 60,000 times %j in linear time, as %s', (piece, format) => {
    // A quadratic parser takes minutes, past the test's deadline.
    expect(parseToolCalls(piece.repeat(60_000), format, [search])).toBeInstanceOf(Array);
  });
});

describe('toolCallAttempts', () => {
  it('numbers the calls, and keeps their text as the model wrote it', () => {
    expect(toolCallAttempts('{"name": "a", "parameters": {}}; {"name": "b", "parameters": 1}', 'llama3', 2)).toEqual([
      { id: 'call00200', name: 'a', args: {}, text: '{"name": "a", "parameters": {}}' },
      { id: 'call00201', problem: '"parameters" is not an object', text: '{"name": "b", "parameters": 1}' },
    ]);
    expect(toolCallAttempts(xml('search', { count: '3' }), 'qwen3-coder', 0, [search])).toEqual([
      { id: 'call00000', name: 'search', args: { count: 3 }, text: 'search>\n<parameter=count>\n3\n</parameter>\n' },
    ]);
  });
});

describe('textBeforeCalls', () => {
  it.each<[ToolCallFormat, string]>([
    ['hermes', '<tool_call>\n{"name": "search", "arguments": {}}\n</tool_call>'],
    ['qwen3-coder', xml('search', { query: 'a' })],
    ['qwen3-coder', '<function=search>\n</function>'],
    ['llama3', '{"name": "search", "parameters": {}}; {"name": "search", "parameters": {}}'],
  ])('keeps what stands before the first call of %s: %s', (format, call) => {
    expect(textBeforeCalls(`I look {1}. \n${call}`, format)).toBe('I look {1}.');
    expect(textBeforeCalls(call, format)).toBe('');
    expect(textBeforeCalls('No call. ', format)).toBe('No call. ');
  });
});
