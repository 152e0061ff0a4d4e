import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { IncrementalText } from '../../src/tokenizer/incremental-text.ts';
import type { TokenBytes } from '../../src/tokenizer/tokenizer-types.ts';

/** A vocabulary of these tokens; `special` ones are control tokens. */
function vocabulary(tokens: readonly Uint8Array[], special: readonly number[] = []): TokenBytes {
  const starts = new Uint32Array(tokens.length + 1);
  tokens.forEach((token, id) => (starts[id + 1] = starts[id]! + token.length));
  return { bytes: Buffer.concat(tokens), starts, special: Uint8Array.from(tokens, (_, id) => (special.includes(id) ? 1 : 0)) };
}

function play(bytes: TokenBytes, ids: readonly number[], options: { readonly skipSpecialTokens?: boolean; readonly before?: Int32Array } = {}) {
  const text = new IncrementalText(bytes, { skipSpecialTokens: true, ...options });
  const pieces = ids.map((id) => text.push(id));
  return { pieces, length: text.length };
}

/** Every byte is a token: whatever text is cut anywhere. */
const SINGLE = vocabulary(Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)));

describe('IncrementalText', () => {
  it('holds a character back until its last byte', () => {
    expect(play(SINGLE, [...Buffer.from('a€😀')]).pieces).toEqual(['a', '', '', '€', '', '', '', '😀']);
  });

  it('shows bytes that form no character with the next one that is whole, and leaves them out at the end', () => {
    expect(play(SINGLE, [0xe2, 0x82, 0x41, 0xff, 0xf0, 0x9f])).toEqual({ pieces: ['', '', '\ufffdA', '', '', ''], length: 2 });
    expect(play(SINGLE, [0xff, 0x80, 0xc3, 0xa9]).pieces).toEqual(['', '', '', '\ufffd\ufffdé']);
  });

  it('shows what stands in a token before an unfinished character together with that', () => {
    const bytes = vocabulary([Buffer.from([0x20, 0xe2]), Buffer.from([0x80, 0x9c]), Buffer.from('a')]);
    expect(play(bytes, [2, 0, 1, 2, 0])).toEqual({ pieces: ['a', '', ' “', 'a', ''], length: 4 });
  });

  it('completes a character that the tokens before began, and shows nothing else of them', () => {
    const before = (text: string, ...bytes: readonly number[]) => ({ before: Int32Array.from([...Buffer.from(text), ...bytes]) });
    expect(play(SINGLE, [0x87, 0x87], before('who?', 0xe6, 0x87)).pieces).toEqual(['懇', '']);
    expect(play(SINGLE, [0x61], before('who?', 0xf0, 0x9f, 0x98)).pieces).toEqual(['\ufffda']);
    for (const whole of [before(''), before('€'), before('', 0xe6, 0x87, 0x87), before('', 0xe6, 0x61), before('', 0x80)]) {
      expect(play(SINGLE, [0x61], whole).pieces).toEqual(['a']);
    }
  });

  it('finds a character that was begun before control tokens that have no text', () => {
    const bytes = vocabulary([Buffer.from('<|end|>'), Uint8Array.of(0xc3), Uint8Array.of(0xa9)], [0]);
    expect(play(bytes, [2], { before: Int32Array.of(1, 0, 0) }).pieces).toEqual(['é']);
    expect(play(bytes, [2], { before: Int32Array.of(1, 0, 0), skipSpecialTokens: false })).toEqual({ pieces: [''], length: 0 });
  });

  it('keeps a byte order mark', () => {
    expect(play(SINGLE, [0xef, 0xbb, 0xbf, 0x61]).pieces.join('')).toBe('\ufeffa');
  });

  it('leaves out control tokens only where that is asked for, even in the middle of a character', () => {
    const bytes = vocabulary([Buffer.from('<|end|>'), Uint8Array.of(0xc3), Uint8Array.of(0xa9)], [0]);
    expect(play(bytes, [1, 0, 2, 0]).pieces).toEqual(['', '', 'é', '']);
    expect(play(bytes, [1, 2, 0], { skipSpecialTokens: false }).pieces).toEqual(['', 'é', '<|end|>']);
  });

  it('has no text for ids beyond the vocabulary', () => {
    expect(play(vocabulary([Buffer.from('a')]), [0, 1, 7, -1, 0]).pieces).toEqual(['a', '', '', '', 'a']);
  });

  it('returns the decoding of all bytes, up to the last whole character, for any tokens', () => {
    const awkward = fc.constantFrom(0x61, 0x80, 0xbf, 0xc0, 0xc3, 0xe0, 0xa0, 0xe2, 0xed, 0xef, 0xf0, 0x90, 0xf4, 0xf5, 0xff, 0xbd);
    const token = fc.oneof(
      fc.uint8Array({ maxLength: 4 }),
      fc.array(awkward, { maxLength: 4 }).map((list) => Uint8Array.from(list)),
    );
    fc.assert(
      fc.property(fc.array(token, { maxLength: 12 }), (tokens) => {
        const text = new IncrementalText(vocabulary(tokens), { skipSpecialTokens: true });
        let shown = '';
        for (const id of tokens.keys()) {
          shown += text.push(id);
          const whole = Buffer.concat(tokens.slice(0, id + 1)).toString('utf8');
          expect(whole.endsWith('\ufffd') ? whole.slice(0, shown.length) : whole).toBe(shown);
          expect(text.length).toBe(shown.length);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('continues from the tokens before as if it had begun with them, when those end in the middle of a character', () => {
    const unfinished = fc.constantFrom([0xc3], [0xe2], [0xe2, 0x82], [0xf0], [0xf0, 0x9f], [0xf0, 0x9f, 0x98]);
    const bytes = fc.oneof(fc.nat(255), fc.integer({ min: 0x80, max: 0xbf }));
    fc.assert(
      fc.property(fc.string(), unfinished, fc.array(bytes, { maxLength: 6 }), (text, begun, ids) => {
        const before = [...Buffer.from(text), ...begun];
        const all = play(SINGLE, [...before, ...ids]).pieces.join('');
        // What the tokens before show by themselves is not shown again.
        const { pieces } = play(SINGLE, ids, { before: Int32Array.from(before) });
        expect(play(SINGLE, before).pieces.join('') + pieces.join('')).toBe(all);
      }),
      { numRuns: 500 },
    );
  });
});
