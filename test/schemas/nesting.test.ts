import { describe, expect, it } from 'vitest';
import { isDeeperThan, nestingProblem } from '../../src/schemas/nesting.ts';

describe('isDeeperThan', () => {
  const nested = (depth: number): unknown => JSON.parse(`${'[{"a":'.repeat(depth / 2)}1${'}]'.repeat(depth / 2)}`);

  it.each([
    [4, 3, true],
    [4, 4, false],
    [200_000, 64, true],
  ])('%i levels against %i: %s', (depth, most, isDeeper) => {
    expect(isDeeperThan(nested(depth), most)).toBe(isDeeper);
  });
});

describe('nestingProblem', () => {
  it('names the key whose value is nested too deeply, and none where all can be used', () => {
    expect(nestingProblem({ a: [1], b: JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`) })).toBe(
      '"b" is nested more than 64 levels deep; give flatter rows',
    );
    expect(nestingProblem({ a: [1], b: { c: [2] } })).toBe(null);
  });
});
