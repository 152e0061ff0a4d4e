import { describe, expect, it } from 'vitest';
import { AllowedTokens } from '../../../src/engine/sampler/allowed-tokens.ts';
import { NANO_VOCABULARY, nanoRequest, openNano } from '../nano-requests.ts';

describe('AllowedTokens', () => {
  it('gives each token once, ascending, in memory that threads share', () => {
    const shared = new AllowedTokens().of([9, 3, 9, 1000, 3, 0]);
    expect(shared).toEqual(Int32Array.of(0, 3, 9, 1000));
    expect(shared!.buffer).toBeInstanceOf(SharedArrayBuffer);
  });

  it('holds one copy for all requests that bring the same list', () => {
    const tokens = new AllowedTokens();
    const list = [5, 4];
    expect(tokens.has(list)).toBe(false);
    const first = tokens.of(list);
    expect(tokens.has(list)).toBe(true);
    expect(tokens.of(list)).toBe(first);
    expect(tokens.of([5, 4])).not.toBe(first);
    expect([tokens.of(null), tokens.has(null)]).toEqual([null, false]);
  });

  it('lets the engine sample from the tokens of a list whose order and repetitions mean nothing', async () => {
    const engine = await openNano();
    const sampled = async (allowedTokenIds: readonly number[]) => [...(await engine.generate(nanoRequest({ allowedTokenIds }))).ids];
    const list = [306, 441, 473, 416];
    const expected = await sampled(list);
    expect(expected.filter((id) => !list.includes(id))).toEqual([]);
    for (const same of [list, list.toReversed(), [...list, ...list]]) expect(await sampled(same)).toEqual(expected);
    const outside = [306, NANO_VOCABULARY];
    // Refused each time: only a list that has passed is not looked through again.
    for (let i = 0; i < 2; i++) await expect(sampled(outside)).rejects.toThrow('allowed_token_ids contains out-of-vocab token id!');
    await engine.close();
  });
});
