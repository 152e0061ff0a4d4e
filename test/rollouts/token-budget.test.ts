import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TokenBudget } from '../../src/rollouts/token-budget.ts';

describe('TokenBudget', () => {
  it('is never exceeded by turns at the same time, and refuses none while a token of it is left {written ≤ budget, 0 only if spent}', async () => {
    const turn = fc.record({ most: fc.integer({ min: 1, max: 20 }), share: fc.double({ min: 0, max: 1, noNaN: true }), ticks: fc.nat(4) });
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 50 }), fc.array(turn, { maxLength: 12 }), async (tokens, turns) => {
        const budget = new TokenBudget(tokens);
        let written = 0;
        const play = async ({ most, share, ticks }: (typeof turns)[number]) => {
          const taken = await budget.take(most);
          expect(taken).toBe(Math.min(most, Math.max(0, tokens - written)));
          for (let i = 0; i < ticks; i++) await Promise.resolve();
          const own = Math.ceil(taken * share);
          written += own;
          budget.give(taken, own);
        };
        await Promise.all(turns.map(play));
        expect(written).toBeLessThanOrEqual(tokens);
        expect(budget.isSpent).toBe(written === tokens);
      }),
      { numRuns: 200 },
    );
  });

  it('has no limit where there is none', async () => {
    const budget = new TokenBudget(Infinity);
    expect(await Promise.all([budget.take(Infinity), budget.take(5)])).toEqual([Infinity, Infinity]);
    budget.give(Infinity, 3);
    expect(budget.isSpent).toBe(false);
  });
});
