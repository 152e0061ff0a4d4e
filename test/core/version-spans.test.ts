import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { joinedSpans, spansBetween, spansProblem, type VersionSpan } from '../../src/core/version-spans.ts';

const anySpans = fc.array(fc.record({ version: fc.nat(3), tokens: fc.integer({ min: 1, max: 4 }) }), { maxLength: 6 });
const perToken = (spans: readonly VersionSpan[]) => spans.flatMap(({ version, tokens }) => Array.from({ length: tokens }, () => version));

describe('spansBetween', () => {
  it('gives every token in the range the version that it had', () => {
    fc.assert(
      fc.property(anySpans, fc.nat(30), fc.nat(30), (spans, from, to) => {
        expect(perToken(spansBetween(spans, from, to))).toEqual(perToken(spans).slice(from, Math.max(from, to)));
      }),
    );
  });
});

describe('joinedSpans', () => {
  it('changes no token and leaves no two neighbours of one version', () => {
    fc.assert(
      fc.property(anySpans, (spans) => {
        const joined = joinedSpans(spans);
        expect(perToken(joined)).toEqual(perToken(spans));
        for (const [i, { version }] of joined.entries()) expect(joined[i + 1]?.version).not.toBe(version);
      }),
    );
  });
});

describe('spansProblem', () => {
  it('says by how much spans miss the tokens, and which span has none', () => {
    expect(spansProblem([{ version: 1, tokens: 2 }], 2)).toBeNull();
    expect(spansProblem([{ version: 1, tokens: 2 }], 3)).toBe('versions cover 2 of 3 tokens');
    expect(
      spansProblem(
        [
          { version: 1, tokens: 2 },
          { version: 2, tokens: 0 },
        ],
        2,
      ),
    ).toBe('versions[1] has 0 tokens');
  });
});
