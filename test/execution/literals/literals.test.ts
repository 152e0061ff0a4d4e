import * as fc from 'fast-check';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Literal } from '../../../src/execution/literals/literal.ts';
import { literalsEqual } from '../../../src/execution/literals/literals-equal.ts';
import { parseLiteral } from '../../../src/execution/literals/parse-literal.ts';

interface Golden {
  /** `value`: as JSON, null if CPython refuses the text or it is not a literal. `must`: it has to be read; texts that are literals in a wider sense need not. */
  readonly cases: readonly { readonly text: string; readonly value: unknown; readonly must: boolean }[];
  readonly pairs: readonly { readonly texts: readonly [string, string]; readonly equal: boolean }[];
}

const golden = JSON.parse(readFileSync(new URL('../../golden/literals.json', import.meta.url), 'utf8')) as Golden;

function read(text: string): Literal {
  const parsed = parseLiteral(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.problem}`);
  return parsed.value;
}

function encoded(value: Literal): unknown {
  switch (value.kind) {
    case 'None':
      return ['NoneType', 'None'];
    case 'Ellipsis':
      return ['ellipsis', 'Ellipsis'];
    case 'bool':
      return ['bool', value.value ? 'True' : 'False'];
    case 'int':
      return ['int', value.value.toString(16)];
    case 'float':
      return ['float', float(value.value)];
    case 'complex':
      return ['complex', ['float', float(value.real)], ['float', float(value.imaginary)]];
    case 'str':
      return ['str', points(value.key)];
    case 'bytes':
      return ['bytes', [...Buffer.from(value.value, 'latin1')]];
    case 'dict':
      return ['dict', value.entries.map((entry) => entry.map(encoded))];
    default: {
      const items = value.items.map(encoded);
      return [value.kind, value.kind === 'set' ? items.toSorted(byJson) : items];
    }
  }
}

function byJson(a: unknown, b: unknown): number {
  const [left, right] = [JSON.stringify(a).replaceAll(',', ', '), JSON.stringify(b).replaceAll(',', ', ')];
  return left < right ? -1 : left > right ? 1 : 0;
}

function float(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return bytes.toString('hex');
}

/** The code points of a string, from its key, which tells halves of pairs from whole characters. */
function points(key: string): number[] {
  const found = key.matchAll(/\ue000(\ue000|d[89a-f][0-9a-f]{2})|[^\ue000]/gu);
  return [...found].map(([whole, marked]) => (marked === undefined || marked === '\ue000' ? whole.codePointAt(0)! : parseInt(marked, 16)));
}

describe('parseLiteral', () => {
  it('reads what CPython reads, and nothing that CPython reads differently', () => {
    expect(golden.cases.length).toBeGreaterThan(1500);
    const wrong = golden.cases.flatMap(({ text, value, must }): unknown[] => {
      const parsed = parseLiteral(text);
      if (!parsed.ok) return must ? [{ text, problem: parsed.problem }] : [];
      return JSON.stringify(encoded(parsed.value)) === JSON.stringify(value) ? [] : [{ text, value, read: encoded(parsed.value) }];
    });
    expect(wrong).toEqual([]);
    const { length: accepted } = golden.cases.filter(({ text }) => parseLiteral(text).ok);
    expect(accepted).toBeGreaterThan(1000);
  });

  it('never throws on any text', () => {
    const bits = fc.constantFrom(
      '(',
      ')',
      '[',
      ']',
      '{',
      '}',
      ',',
      ':',
      "'",
      '"',
      "'''",
      '\\',
      '\n',
      '\r\n',
      '#',
      '1',
      '0x',
      '1.',
      'e',
      'j',
      '-',
      '+',
      'nan',
      'set()',
      'b',
      '\0',
      '\ud800',
    );
    const texts = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.array(bits).map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(texts, (text) => {
        const parsed = parseLiteral(text);
        expect(parsed.ok ? typeof parsed.value : typeof parsed.problem).toMatch(/object|string/);
      }),
      { numRuns: 500 },
    );
  });

  it('refuses hostile texts with a reason, and reads long ones to their end', () => {
    const refused = [
      '['.repeat(300),
      '['.repeat(201) + ']'.repeat(201),
      '9'.repeat(5000),
      "'\0'",
      "'\ud800'",
      '1'.repeat(2 ** 20 + 1),
      '1+'.repeat(1000),
    ];
    for (const text of refused) expect(parseLiteral(text)).toMatchObject({ ok: false, problem: expect.stringMatching(/./) });
    const long = [
      `[${'1, '.repeat(100_000)}]`,
      `'${'\\'.repeat(300_000)}'`,
      `0x${'f'.repeat(300_000)}`,
      `${' '.repeat(300_000)}1`,
      '\n'.repeat(300_000),
      `{${'(),'.repeat(100_000)}}`,
    ];
    expect(long.map((text) => parseLiteral(text).ok)).toEqual([true, true, true, true, false, true]);
  });

  it('refuses expressions, calls and f-strings, which only a sandbox may evaluate', () => {
    for (const text of [
      '1 + 1',
      "len('a')",
      "f'a'",
      '[x for x in []]',
      'x',
      '__import__("os")',
      '(1).real',
      "'a' * 3",
      '{**{}}',
      '[*()]',
      'lambda: 1',
    ])
      expect(parseLiteral(text)).toMatchObject({ ok: false });
  });
});

describe('literalsEqual', () => {
  it('agrees with CPython on every recorded pair', () => {
    expect(golden.pairs.filter(({ equal }) => equal).length).toBeGreaterThan(200);
    for (const { texts, equal } of golden.pairs) expect({ texts, equal: literalsEqual(read(texts[0]), read(texts[1])) }).toEqual({ texts, equal });
  });

  it.each([
    ['1', '1.0', true],
    ['True', '1', true],
    ['1', '1+0j', true],
    ['9007199254740993', '9007199254740992.0', false],
    ['0.0', '-0.0', true],
    ['nan', 'nan', false],
    ['[nan]', '[nan]', false],
    ['inf', '1e400', true],
    ['{1, 2}', '{2, 1}', true],
    ["{'a': 1, 'b': 2}", "{'b': 2.0, 'a': True}", true],
    ['{1: 2}', '{True: 2.0}', true],
    ['(1, 2)', '[1, 2]', false],
    ["'a'", "b'a'", false],
    ['None', 'False', false],
    ['{(1, 2.0)}', '{(True, 2)}', true],
    ['set()', '{}', false],
    [String.raw`'\ud83d\ude42'`, "'🙂'", false],
  ])('%s == %s is %s', (a, b, equal) => {
    expect(literalsEqual(read(a), read(b))).toBe(equal);
    expect(literalsEqual(read(b), read(a))).toBe(equal);
  });
});
