import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wellFormedJson } from '../../src/schemas/well-formed-json.ts';

describe('wellFormedJson', () => {
  it('replaces halves of surrogate pairs, and nothing that only looks like them', () => {
    const texts = ['a\ud800', '\udc00b', '\ud83d\ude00', '\\ud800', '\\\ud800', 'x\\\\ud800', '\u2028\u0000"'];
    for (const text of texts) expect(JSON.parse(wellFormedJson(JSON.stringify(text)))).toBe(text.toWellFormed());
  });

  it('gives the well-formed text for any text {toWellFormed}', () => {
    const unit = fc.constantFrom('\ud800', '\udbff', '\udc00', '\udfff', '\\', 'u', 'd8', '"', 'é', '😀');
    fc.assert(
      fc.property(fc.array(unit), (units) => {
        const text = units.join('');
        expect(JSON.parse(wellFormedJson(JSON.stringify(text)))).toBe(text.toWellFormed());
      }),
    );
  });
});
