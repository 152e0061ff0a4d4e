import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MaybeThinkParser, ThinkParser } from '../../src/core/parser.ts';
import { XMLParser } from '../../src/core/xml-parser.ts';

interface XmlCase {
  parser: 'xml';
  fields: (string | string[])[];
  text: string;
  first: Record<string, string | null>;
  last: Record<string, string | null>;
  answer: string | null;
  format_reward: number;
  format_str: string;
}
interface ThinkCase {
  parser: 'think';
  text: string;
  answer: string;
  format_reward: number;
}
const golden = JSON.parse(readFileSync(new URL('../golden/parsers.json', import.meta.url), 'utf8')) as { cases: (XmlCase | ThinkCase)[] };
const xmlCases = golden.cases.filter((c) => c.parser === 'xml');
const thinkCases = golden.cases.filter((c) => c.parser === 'think');

describe('XMLParser', () => {
  it.each(xmlCases)('reads $text as $fields like verifiers 0.1.14', (c) => {
    const parser = new XMLParser({ fields: c.fields });
    expect(parser.parse(c.text)).toEqual(c.first);
    expect(parser.parse(c.text, { last: true })).toEqual(c.last);
    expect(parser.parseAnswer(c.text)).toBe(c.answer);
    expect(parser.formatReward(c.text)).toBeCloseTo(c.format_reward, 12);
    expect(parser.getFormatStr()).toBe(c.format_str);
  });

  it('formats what it parses back', () => {
    const parser = new XMLParser({ fields: ['think', ['code', 'answer']] });
    const text = parser.format({ think: 'a', answer: 'b' });
    expect(text).toBe('<think>\na\n</think>\n<code>\nb\n</code>');
    expect(parser.parse(text)).toEqual({ think: 'a', code: 'b', answer: null });
    expect(() => parser.format({ think: 'a' })).toThrow('Field "code"');
  });

  it('refuses a field named twice', () => {
    expect(() => new XMLParser({ fields: ['a', 'a'] })).toThrow('Two XML fields are called "a"');
  });

  it('never throws and stays within 0 and 1', () => {
    const parser = new XMLParser({ fields: ['think', 'answer'] });
    const piece = fc.oneof(fc.constantFrom('<think>', '</think>', '<answer>', '</answer>', ' ', '\n'), fc.string());
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const score = parser.formatReward(pieces.join(''));
        expect(score).toBeGreaterThanOrEqual(0);
        expect(score).toBeLessThanOrEqual(1);
      }),
    );
  });

  it('reads a million unclosed tags without stalling', () => {
    expect(new XMLParser({ fields: ['answer'] }).parseAnswer('<answer>'.repeat(1e6))).toBe(null);
  });
});

describe('ThinkParser', () => {
  it.each(thinkCases)('reads $text like verifiers 0.1.14', (c) => {
    const parser = new ThinkParser();
    expect(parser.parseAnswer(c.text) ?? '').toBe(c.answer);
    expect(parser.formatReward(c.text)).toBe(c.format_reward);
  });
});

describe('MaybeThinkParser', () => {
  it('returns the whole text when the model did not think', () => {
    const parser = new MaybeThinkParser();
    expect(parser.parseAnswer(' plain ')).toBe('plain');
    expect(parser.formatReward('plain')).toBe(1);
    expect(parser.parseAnswer('<think>t</think> said')).toBe('said');
  });
});
