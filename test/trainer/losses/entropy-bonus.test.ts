import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Aggregation } from '../../../src/trainer/losses/aggregation.ts';
import { entropyBonus } from '../../../src/trainer/losses/entropy-bonus.ts';
import { countTokens, sumCounts } from '../../../src/trainer/losses/token-mask.ts';
import { anyAggregation, anyBatch, type FullBatch, sliceSequences } from './loss-batches.ts';

/** A positive column stands in for entropies. */
const withEntropy = (batch: FullBatch) => ({ ...batch, entropy: batch.logProbs.map((logProb) => -logProb) });
const tokenMean: Aggregation = { kind: 'token_mean' };

describe('entropyBonus', () => {
  it('has the gradient that finite differences give', () => {
    let compared = 0;
    fc.assert(
      fc.property(anyBatch, anyAggregation, fc.constantFrom(0.001, 0.5), (batch, aggregation, coefficient) => {
        const { entropy, ...layout } = withEntropy(batch);
        const lossOf = (values: Float64Array) => entropyBonus({ ...layout, entropy: values }, coefficient, aggregation, countTokens(batch)).loss;
        const { dEntropy } = entropyBonus({ ...layout, entropy }, coefficient, aggregation, countTokens(batch));
        for (let t = 0; t < entropy.length; t++) {
          const slope = (lossOf(entropy.with(t, entropy[t]! + 1)) - lossOf(entropy.with(t, entropy[t]! - 1))) / 2;
          expect(dEntropy[t]).toBeCloseTo(slope, 12);
          compared++;
        }
      }),
    );
    expect(compared).toBeGreaterThan(500);
  });

  it('gives the same gradient, bit for bit, however a step is split between sequences', () => {
    fc.assert(
      fc.property(anyBatch, anyAggregation, fc.nat(), (batch, aggregation, at) => {
        const cut = at % batch.offsets.length;
        const parts = [sliceSequences(batch, 0, cut), sliceSequences(batch, cut, batch.offsets.length - 1)].map(withEntropy);
        const counts = sumCounts(parts.map(countTokens));
        const whole = entropyBonus(withEntropy(batch), 0.01, aggregation, counts);
        const split = parts.map((part) => entropyBonus(part, 0.01, aggregation, counts));
        expect(split.flatMap((part) => [...part.dEntropy])).toEqual([...whole.dEntropy]);
        expect(split.reduce((sum, part) => sum + part.loss, 0)).toBeCloseTo(whole.loss, 12);
      }),
    );
  });

  it('is upstream’s: minus the coefficient times the masked mean', () => {
    const batch = { offsets: Int32Array.of(0, 2, 4), mask: Uint8Array.of(1, 0, 1, 1), entropy: Float64Array.of(1, NaN, 2, 6) };
    const { loss, dEntropy } = entropyBonus(batch, 0.001, tokenMean, countTokens(batch));
    expect(loss).toBeCloseTo(-0.003, 15);
    expect([...dEntropy]).toEqual([-0.001 / 3, 0, -0.001 / 3, -0.001 / 3]);
  });

  it('falls when the policy is less decided: descending the loss raises the entropy', () => {
    const batch = { offsets: Int32Array.of(0, 1), mask: Uint8Array.of(1) };
    const lossAt = (entropy: number) => entropyBonus({ ...batch, entropy: Float64Array.of(entropy) }, 0.001, tokenMean, countTokens(batch)).loss;
    expect(lossAt(2)).toBeLessThan(lossAt(1));
  });

  it('is 0 where no token is trained', () => {
    const batch = { offsets: Int32Array.of(0, 1), mask: Uint8Array.of(0), entropy: Float64Array.of(NaN) };
    expect(entropyBonus(batch, 0.001, tokenMean, countTokens(batch))).toEqual({ loss: 0, dEntropy: Float64Array.of(0) });
  });

  it('refuses a column of another length, and counts smaller than those of the batch', () => {
    const batch = { offsets: Int32Array.of(0, 2), mask: Uint8Array.of(1, 1), entropy: new Float64Array(2) };
    const counts = countTokens(batch);
    expect(() => entropyBonus({ ...batch, entropy: new Float64Array(3) }, 1, tokenMean, counts)).toThrow(
      'The mask has 2 tokens, but there are 3 entropies',
    );
    expect(() => entropyBonus(batch, 1, tokenMean, { ...counts, tokens: 1 })).toThrow('counts must cover the whole step');
  });
});
