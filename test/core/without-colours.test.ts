import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { withoutColours } from '../../src/core/without-colours.ts';

const ESCAPE = '\u001B';
const sequences = [
  `${ESCAPE}[31m`,
  `${ESCAPE}[0m`,
  `${ESCAPE}[38;2;1;2;3m`,
  `${ESCAPE}[2K`,
  `${ESCAPE}[?25l`,
  `${ESCAPE}]8;;http://a.b\u0007`,
  `${ESCAPE}]0;title${ESCAPE}\\`,
];

describe('withoutColours', () => {
  it('leaves { any text } as it was, and takes the sequences of a terminal out of it', () => {
    const texts = fc.array(fc.string().filter((text) => !text.includes(ESCAPE)));
    fc.assert(
      fc.property(texts, fc.array(fc.constantFrom(...sequences)), (words, codes) => {
        const coloured = words.map((word, i) => `${codes[i] ?? ''}${word}`).join('');
        expect(withoutColours(coloured)).toBe(words.join(''));
      }),
    );
  });
});
