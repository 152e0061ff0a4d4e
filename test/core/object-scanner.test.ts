import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { objectScanner } from '../../src/core/object-scanner.ts';

/** Past the brace that closes the one at `start`, found by reading on from there. */
function endByReading(text: string, start: number): number | null {
  let depth = 0;
  let isInString = false;
  for (let at = start; at < text.length; at++) {
    if (isInString && text[at] === '\\') at += 1;
    else if (text[at] === '"') isInString = !isInString;
    else if (!isInString && text[at] === '{') depth += 1;
    else if (!isInString && text[at] === '}' && --depth === 0) return at + 1;
  }
  return null;
}

describe('objectScanner', () => {
  test('gives every brace the end that is found by reading on from it { any text of braces and quotes }', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('{', '}', '"', '\\', 'a', ':', ' ', '1', '[', ']'), maxLength: 60 }), (text) => {
        const scan = objectScanner(text);
        for (let span = scan(0); span !== null; span = scan(span.start + 1)) expect(span.end).toBe(endByReading(text, span.start));
      }),
      { numRuns: 2000 },
    );
  });

  test('continues past an object, and inside braces that are not one', () => {
    const text = 'a {b {"c": {}} {"d"}';
    const scan = objectScanner(text);
    expect(scan(0)).toEqual({ start: 2, end: null, value: null, next: 3 });
    expect(scan(3)).toEqual({ start: 5, end: 14, value: { c: {} }, next: 14 });
    expect(scan(14)).toEqual({ start: 15, end: 20, value: null, next: 16 });
    expect(scan(16)).toBeNull();
  });

  test.each(['{', '{"a":', '{"', '"{', '{"a":{x}', '\\"{'])('reads 200,000 times %j, closed and not, in linear time', (piece) => {
    // Quadratic time would pass the test's deadline.
    for (const text of [piece.repeat(200_000), `${piece.repeat(200_000)}x${'}'.repeat(200_000)}`]) {
      const scan = objectScanner(text);
      let spans = 0;
      for (let span = scan(0); span !== null; span = scan(span.next)) spans += 1;
      expect(spans).toBeGreaterThan(0);
    }
  });
});
