import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StopStrings } from '../../src/tokenizer/stop-strings.ts';

/** The match of the whole text, found without pieces: the first end, then the first in the list. */
function searched(strings: readonly string[], text: string, from: number): { string: string; end: number } | null {
  for (let end = from + 1; end <= text.length; end++) {
    const string = strings.find((each) => text.slice(0, end).endsWith(each));
    if (string !== undefined) return { string, end };
  }
  return null;
}

const letters = fc.string({ unit: fc.constantFrom('a', 'b', '<'), maxLength: 4 });

describe('StopStrings', () => {
  it('finds in pieces what a search of the whole text finds', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '<'), minLength: 1, maxLength: 4 }), { maxLength: 3 }),
        fc.array(letters),
        (strings, pieces) => {
          const stops = new StopStrings(strings);
          let text = '';
          for (const piece of pieces) {
            const before = text.length;
            text += piece;
            const match = stops.push(piece, true);
            expect(match).toEqual(searched(strings, text, before));
            if (match !== null) return;
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('holds back no less and no more than may begin a stop string', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom('a', 'b', '<'), minLength: 1, maxLength: 4 }), { maxLength: 3 }),
        fc.array(letters),
        (strings, pieces) => {
          const stops = new StopStrings(strings);
          let text = '';
          for (const piece of pieces) {
            text += piece;
            stops.push(piece, false);
            const held = Math.max(
              0,
              ...strings.flatMap((each) => Array.from({ length: each.length }, (_, n) => (text.endsWith(each.slice(0, n)) ? n : 0))),
            );
            expect(stops.pending).toBe(held);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('looks for those that begin in text that did not count', () => {
    const stops = new StopStrings(['stop']);
    expect(stops.push('a stop st', false)).toBeNull();
    expect(stops.push('op', true)).toEqual({ string: 'stop', end: 11 });
  });
});
