import { describe, expect, test } from 'vitest';
import { PromptGrowth } from '../../src/clients/prompt-growth.ts';
import { PrefixBreakError } from '../../src/core/errors.ts';

describe('PromptGrowth', () => {
  test('accepts prompts that extend the last one or repeat it', () => {
    const growth = new PromptGrowth();
    const all = Int32Array.from({ length: 5000 }, (_, i) => i);
    for (const length of [0, 3, 3, 4, 900, 5000]) expect(() => growth.extendTo(all.subarray(0, length))).not.toThrow();
  });

  test.each([
    ['a changed token', [1, 9, 3, 4], 'token 1 was 2 and is now 9'],
    ['a shorter prompt', [1, 2], 'token 2 was 3 and is now missing'],
    ['a changed last token', [1, 2, 4], 'token 2 was 3 and is now 4'],
  ])('refuses %s and names it', (_, next, message) => {
    const growth = new PromptGrowth();
    growth.extendTo(Int32Array.of(1, 2, 3));
    expect(() => growth.extendTo(Int32Array.from(next))).toThrow(PrefixBreakError);
    expect(() => growth.extendTo(Int32Array.from(next))).toThrow(message);
  });

  test('keeps a copy: a caller may re-use its array', () => {
    const growth = new PromptGrowth();
    const ids = Int32Array.of(1, 2, 3);
    growth.extendTo(ids);
    ids[0] = 7;
    expect(() => growth.extendTo(ids)).toThrow(PrefixBreakError);
  });

  test('a prompt that was cut starts over', () => {
    const growth = new PromptGrowth();
    growth.extendTo(Int32Array.of(1, 2, 3));
    growth.extendTo(Int32Array.of(2, 3), true);
    growth.extendTo(Int32Array.of(2, 3, 4));
    expect(() => growth.extendTo(Int32Array.of(1, 2, 3, 4))).toThrow(PrefixBreakError);
  });
});
