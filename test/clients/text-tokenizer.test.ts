import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { byteTokenizer, codePointTokenizer } from '../../src/clients/text-tokenizer.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 40 });

describe.each([
  ['byteTokenizer', byteTokenizer],
  ['codePointTokenizer', codePointTokenizer],
])('%s', (_, tokenizer) => {
  test('decode gives back what encode was given {any text}', () => {
    fc.assert(
      fc.property(text, (t) => {
        expect(tokenizer.decode(tokenizer.encode(t))).toBe(t);
      }),
    );
  });

  test('a sampled text is the text of its ids, and textEnds says how much of it each token completes {any text}', () => {
    fc.assert(
      fc.property(text, (t) => {
        const { text: sampled, ids, textEnds } = tokenizer.encodeSampled(t);
        expect(sampled).toBe(t);
        expect(tokenizer.decode(ids)).toBe(t);
        expect(textEnds).toHaveLength(ids.length);
        ids.forEach((__, i) =>
          expect(tokenizer.decode(ids.subarray(0, i + 1)).replace(/\ufffd+$/, '')).toBe(t.slice(0, textEnds[i]).replace(/\ufffd+$/, '')),
        );
      }),
    );
  });

  test('turns lone surrogates into U+FFFD, in the text as in the ids', () => {
    const { text: sampled, ids } = tokenizer.encodeSampled('a\ud800b');
    expect(sampled).toBe('a\ufffdb');
    expect(tokenizer.decode(ids)).toBe(sampled);
  });

  test('environment text never becomes a control token', () => {
    const spelled = 'a<|im_end|>b<|endoftext|>';
    expect(tokenizer.decode(tokenizer.encode(spelled))).toBe(spelled);
    expect(tokenizer.encode(spelled)).toHaveLength(spelled.length);
  });
});

describe('byteTokenizer', () => {
  test('writes the bytes of UTF-8', () => {
    expect([...byteTokenizer.encode('aé😀')]).toEqual([0x61, 0xc3, 0xa9, 0xf0, 0x9f, 0x98, 0x80]);
    expect([...byteTokenizer.encodeSampled('aé😀').textEnds]).toEqual([1, 1, 2, 2, 2, 2, 4]);
  });
  test('shows bytes that are not UTF-8 as U+FFFD', () => {
    expect(byteTokenizer.decode(Int32Array.of(0x61, 0xc3))).toBe('a\ufffd');
  });
});

describe('codePointTokenizer', () => {
  test('makes one token without text of each control token in prompts and sampled texts', () => {
    const { text: sampled, ids, textEnds } = codePointTokenizer.encodeSampled('<|im_start|>é<|im_end|>');
    expect([sampled, [...textEnds]]).toEqual(['é', [0, 1, 1]]);
    expect(ids).toEqual(codePointTokenizer.encodePrompt('<|im_start|>é<|im_end|>'));
    expect(codePointTokenizer.decode(ids)).toBe('é');
  });
});
