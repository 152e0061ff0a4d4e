import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { billed, costOf, FREE } from '../../src/core/price.ts';
import { CostCeiling, runCost } from '../../src/evaluate/run-cost.ts';
import { RunSpending, Spending } from '../../src/evaluate/spending.ts';
import type { WireSpending } from '../../src/schemas/run-cost.ts';

const PRICE = { input: 2, cached: 0.5, output: 8 };

describe('costOf', () => {
  it('takes the price of cached tokens for the part that the server reported, and the full one where it reports none', () => {
    expect(costOf(billed(1_000_000, 500_000, 250_000), PRICE)).toBeCloseTo(1.5 + 0.125 + 4, 12);
    expect(costOf(billed(1_000_000, 500_000, null), PRICE)).toBeCloseTo(2 + 4, 12);
  });

  it('is never negative, whatever a server reports as cached', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), fc.nat(), (input, output, cached) => {
        const cost = costOf(billed(input, output, cached), PRICE);
        expect(cost).toBeGreaterThanOrEqual(0);
        expect(cost).toBeLessThanOrEqual(costOf(billed(input, output, null), PRICE));
      }),
    );
  });
});

describe('runCost', () => {
  const usage = (inputTokens: number) => ({ inputTokens, outputTokens: 0, cachedTokens: null });

  it('leaves calls out that a cache answered, and counts attempts before the last', () => {
    const spent = new RunSpending();
    spent.addRollout({ turns: 1, usage: usage(3_000_000), repeatedUsage: usage(1_000_000) });
    const call = { role: 'judge', usage: { promptTokens: 1_000_000, completionTokens: 0, cachedTokens: null } };
    spent.all.addAsked([
      { ...call, attempts: 1 },
      { ...call, attempts: 0 },
    ]);
    const priced = { model: 'm', price: PRICE };
    expect(runCost(spent, { policy: priced, roles: { judge: priced }, limit: null }, false)).toMatchObject({
      usd: 10,
      policy: 8,
      roles: { judge: 2 },
      repeated: 2,
    });
  });

  it('is unknown as a whole if one model that was asked has no price, and known if that model was not asked', () => {
    const spent = new RunSpending();
    spent.addRollout({ turns: 1, usage: usage(1_000_000) });
    const options = { policy: { model: 'm', price: PRICE }, roles: { judge: { model: 'j', price: null } }, limit: null };
    expect(runCost(spent, options, false)).toMatchObject({ usd: 2, unpriced: [] });
    spent.all.addAsked([{ role: 'judge', attempts: 1, usage: { promptTokens: 1, completionTokens: 1, cachedTokens: 0 } }]);
    expect(runCost(spent, options, false)).toMatchObject({ usd: null, policy: 2, roles: { judge: null }, unpriced: ['j'] });
    expect(runCost(spent, { ...options, policy: { model: 'm', price: FREE } }, false)).toMatchObject({ usd: null, policy: 0 });
  });
});

describe('a server that reports no usage', () => {
  const priced = (model: string, price = PRICE) => ({ model, price });
  const asked = (attempts: number) => [{ role: 'judge', attempts, usage: { promptTokens: 0, completionTokens: 0, cachedTokens: null } }];
  const none = { inputTokens: 0, outputTokens: 0, cachedTokens: null };

  it('makes the cost of its model unknown, and names the model', () => {
    const spent = new RunSpending();
    spent.addRollout({ turns: 1, usage: { ...none, inputTokens: 1_000_000 } });
    spent.all.addAsked(asked(0));
    const options = { policy: priced('m'), roles: { judge: priced('j') }, limit: 1 };
    expect(runCost(spent, options, false)).toMatchObject({ usd: 2, uncounted: [] });
    spent.all.addAsked(asked(1));
    expect(runCost(spent, options, false)).toMatchObject({ usd: null, policy: 2, roles: { judge: null }, uncounted: ['j'], unpriced: [] });
    expect(runCost(spent, { ...options, roles: { judge: priced('j', FREE) } }, false)).toMatchObject({ usd: 2, uncounted: [] });
  });

  it('is known of the policy by rollouts that have turns and no tokens, also where a resume dropped them', () => {
    const options = { policy: priced('m'), roles: {}, limit: null };
    const dropped = new Spending();
    dropped.addRollout({ turns: 0, usage: none });
    expect(runCost(new RunSpending({ dropped }), options, false)).toMatchObject({ usd: 0, uncounted: [] });
    dropped.addRollout({ turns: 2, usage: none });
    const onFile = Spending.of(JSON.parse(JSON.stringify(dropped.toWire())) as WireSpending);
    expect(runCost(new RunSpending({ dropped: onFile }), options, false)).toMatchObject({ usd: null, uncounted: ['m'] });
  });
});

describe('CostCeiling', () => {
  /** Plays groups of `size` rollouts, `atOnce` in flight, each for `each` dollars; returns the bill. */
  function bill(options: { limit: number; groups: number; size: number; atOnce: number; each: number; before: number }) {
    const { limit, groups, size, atOnce, each, before } = options;
    let ended = before;
    const ceiling = new CostCeiling({ limit, soFar: () => ({ usd: ended * each, rollouts: ended }) });
    const row = { exampleId: 0, prompt: [] };
    const begun = ceiling.within(Array.from({ length: groups }, () => ({ row, indices: Array.from({ length: size }, (_, i) => i) })));
    let inFlight = 0;
    let waiting = 0;
    for (;;) {
      while (inFlight < atOnce) {
        if (waiting === 0) {
          const next = begun.next();
          if (next.done === true) break;
          waiting = size;
        }
        waiting -= 1;
        inFlight += 1;
      }
      if (inFlight === 0) return { usd: ended * each, isReached: ceiling.isReached, played: ended - before };
      inFlight -= 1;
      ended += 1;
    }
  }

  it('a run ends within one group of its limit, the rollouts that were in flight before the first ended aside', () => {
    const count = (max: number) => fc.integer({ min: 1, max });
    const runs = fc.record({ limit: count(50), groups: count(40), size: count(8), atOnce: count(16), each: fc.constant(1), before: fc.nat(60) });
    fc.assert(
      fc.property(runs, (options) => {
        const { usd, isReached, played } = bill(options);
        const { limit, groups, size, atOnce, each, before } = options;
        expect(isReached).toBe(played < groups * size);
        expect(played % size).toBe(0);
        expect(isReached && usd < limit).toBe(false);
        // The first ones begin before any cost is known.
        const blind = before === 0 ? (Math.ceil(atOnce / size) + 1) * size * each : 0;
        expect(usd).toBeLessThanOrEqual(Math.max(limit + size * each, before * each, blind));
      }),
    );
  });
});
