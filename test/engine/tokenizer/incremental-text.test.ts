import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { IncrementalText } from '../../../src/engine/tokenizer/incremental-text.ts';
import type { TokenBytes } from '../../../src/engine/tokenizer/tokenizer-types.ts';

/** A vocabulary of these tokens; `special` ones are control tokens. */
function vocabulary(tokens: readonly Uint8Array[], special: readonly number[] = []): TokenBytes {
  const starts = new Uint32Array(tokens.length + 1);
  tokens.forEach((token, id) => (starts[id + 1] = starts[id]! + token.length));
  return { bytes: Buffer.concat(tokens), starts, special: Uint8Array.from(tokens, (_, id) => (special.includes(id) ? 1 : 0)) };
}

function play(bytes: TokenBytes, ids: readonly number[], skipSpecialTokens = true) {
  const text = new IncrementalText(bytes, { skipSpecialTokens });
  const pieces = ids.map((id) => text.push(id));
  return { pieces, rest: text.finish(), length: text.length };
}

/** Every byte is a token: whatever text is cut anywhere. */
const SINGLE = vocabulary(Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)));

describe('IncrementalText', () => {
  it('holds a character back until its last byte', () => {
    const { pieces, rest } = play(SINGLE, [...Buffer.from('a€😀')]);
    expect(pieces).toEqual(['a', '', '', '€', '', '', '', '😀']);
    expect(rest).toBe('');
  });

  it('gives up on a broken character as soon as it is certain', () => {
    expect(play(SINGLE, [0xe2, 0x82, 0x41, 0xff, 0xf0, 0x9f])).toEqual({ pieces: ['', '', '\ufffdA', '\ufffd', '', ''], rest: '\ufffd', length: 4 });
  });

  it('keeps a byte order mark', () => {
    expect(play(SINGLE, [0xef, 0xbb, 0xbf, 0x61]).pieces.join('')).toBe('\ufeffa');
  });

  it('leaves out control tokens only where that is asked for, even in the midst of a character', () => {
    const bytes = vocabulary([Buffer.from('<|end|>'), Uint8Array.of(0xc3), Uint8Array.of(0xa9)], [0]);
    expect(play(bytes, [1, 0, 2, 0]).pieces).toEqual(['', '', 'é', '']);
    expect(play(bytes, [1, 2, 0], false).pieces).toEqual(['', 'é', '<|end|>']);
  });

  it('has no text for ids beyond the vocabulary', () => {
    expect(play(vocabulary([Buffer.from('a')]), [0, 1, 7, -1, 0]).pieces).toEqual(['a', '', '', '', 'a']);
  });

  it('adds up to the decoding of all bytes at once, and to its length, whatever the tokens', () => {
    const awkward = fc.constantFrom(0x61, 0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xa0, 0xe2, 0xed, 0xef, 0xf0, 0x90, 0xf4, 0xf5, 0xff);
    const token = fc.oneof(
      fc.uint8Array({ maxLength: 4 }),
      fc.array(awkward, { maxLength: 4 }).map((list) => Uint8Array.from(list)),
    );
    fc.assert(
      fc.property(fc.array(token, { maxLength: 12 }), (tokens) => {
        const { pieces, rest, length } = play(
          vocabulary(tokens),
          tokens.map((_, id) => id),
        );
        const text = [...pieces, rest].join('');
        expect(text).toBe(Buffer.concat(tokens).toString('utf8'));
        expect(length).toBe(text.length);
        // What was given out is certain: no later token takes it back.
        for (let n = 0; n <= tokens.length; n++) {
          expect(Buffer.concat(tokens.slice(0, n)).toString('utf8').startsWith(pieces.slice(0, n).join(''))).toBe(true);
        }
      }),
      { numRuns: 500 },
    );
  });
});
