import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSame } from '../../parity/vectors.ts';
import { mergeLossMetrics } from '../../../src/trainer/losses/loss-metrics.ts';
import { nllLoss } from '../../../src/trainer/losses/nll-loss.ts';
import { countTokens } from '../../../src/trainer/losses/token-counts.ts';
import { anyAggregation, anyBatch, batchOf, splitSequences } from './loss-batches.ts';

describe('nllLoss', () => {
  it('is the weighted mean of −log π, and its metric the mean without weights', () => {
    const batch = { ...batchOf([[-1, -2], [-6]], 0), advantages: Float64Array.of(1, 0.5, 2) };
    const { loss, gradient, metrics } = nllLoss({ kind: 'token_mean' }).evaluate(batch, countTokens(batch.offsets));
    expect(loss).toBeCloseTo((1 + 0.5 * 2 + 2 * 6) / 3, 12);
    expect([...gradient]).toEqual([-1 / 3, -0.5 / 3, -2 / 3]);
    expect(metrics).toEqual({ nll: { merge: 'mean', value: 3, weight: 3 } });
  });

  it('has the gradient that finite differences give', () => {
    let compared = 0;
    fc.assert(
      fc.property(anyBatch, anyAggregation, (batch, aggregation) => {
        const loss = nllLoss(aggregation);
        const lossAt = (t: number, by: number) =>
          loss.evaluate({ ...batch, logProbs: batch.logProbs.with(t, batch.logProbs[t]! + by) }, countTokens(batch.offsets)).loss;
        for (const [t, slope] of loss.evaluate(batch, countTokens(batch.offsets)).gradient.entries()) {
          expect(slope).toBeCloseTo((lossAt(t, 1) - lossAt(t, -1)) / 2, 10);
          compared++;
        }
      }),
    );
    expect(compared).toBeGreaterThan(300);
  });

  it('gives the same gradient, bit for bit, however a step is split between sequences', () => {
    fc.assert(
      fc.property(anyBatch, anyAggregation, fc.nat(), fc.nat(), (batch, aggregation, first, second) => {
        const [loss, counts] = [nllLoss(aggregation), countTokens(batch.offsets)];
        const whole = loss.evaluate(batch, counts);
        const split = splitSequences(batch, [first, second]).map((part) => loss.evaluate(part, counts));
        expect(split.flatMap(({ gradient }) => [...gradient])).toEqual([...whole.gradient]);
        expect(split.reduce((sum, part) => sum + part.loss, 0)).toBeCloseTo(whole.loss, 10);
        expect(isSame(mergeLossMetrics(split.map(({ metrics }) => metrics)), { ...whole.metrics })).toBe(true);
      }),
    );
  });

  it('needs no other log-probs, so a demonstration needs no further pass', () => {
    const { logProbs, offsets, advantages } = batchOf([[-1]], 1);
    const loss = nllLoss({ kind: 'sum' });
    expect(loss.needs).toEqual({ old: false, reference: false, sampler: false });
    expect(loss.evaluate({ logProbs, offsets, advantages }, countTokens(offsets)).loss).toBe(1);
  });

  it('shows a NaN, and refuses counts smaller than those of the batch', () => {
    const batch = batchOf([[NaN, -1]], 1);
    expect(nllLoss({ kind: 'sum' }).evaluate(batch, countTokens(batch.offsets)).loss).toBeNaN();
    expect(() => nllLoss({ kind: 'sum' }).evaluate(batch, { tokens: 1, sequences: 1, trainedSequences: 1 })).toThrow(
      'counts must cover the whole step',
    );
  });
});
