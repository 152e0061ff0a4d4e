import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSame } from '../../../scripts/parity/vectors.ts';
import { mergeLossMetrics } from '../../../src/trainer/losses/loss-metrics.ts';
import { policyLoss, type PolicyLossConfig } from '../../../src/trainer/losses/policy-loss.ts';
import { countTokens, sumCounts } from '../../../src/trainer/losses/token-mask.ts';
import { anyBatch, anyConfig, COLUMNS, differentiableConfig, type FullBatch, sliceSequences } from './loss-batches.ts';

const grpo: PolicyLossConfig = {
  ratio: 'token',
  objective: { kind: 'clip', clipLow: 0.2, clipHigh: 0.2, dualClip: null },
  logRatioClamp: null,
  correction: null,
  aggregation: { kind: 'token_mean' },
  kl: null,
};

/** One sequence per row of log-ratios, all tokens trained, old log-probs 0. */
function batchOf(logRatios: readonly (readonly number[])[], advantage: number): FullBatch {
  const offsets = Int32Array.from(logRatios.reduce((ends, row) => [...ends, ends.at(-1)! + row.length], [0]));
  const logProbs = Float64Array.from(logRatios.flat());
  const zeros = new Float64Array(logProbs.length);
  const mask = new Uint8Array(logProbs.length).fill(1);
  const advantages = zeros.map(() => advantage);
  return { offsets, mask, logProbs, oldLogProbs: zeros, advantages, referenceLogProbs: zeros, samplerLogProbs: zeros };
}

const lossOf = (config: PolicyLossConfig, batch: FullBatch) => policyLoss(config, batch, countTokens(batch));

/** Distance of the nearest corner of the loss, along any token's log-prob: there a finite difference is not a derivative. */
function isNearCorner({ objective, logRatioClamp, kl, ratio }: PolicyLossConfig, batch: FullBatch, reach: number): boolean {
  const bounds = objective.kind === 'clip' ? [1 - objective.clipLow, 1 + objective.clipHigh, objective.dualClip ?? Infinity] : [];
  const trained = [...batch.mask.keys()].filter((t) => batch.mask[t] === 1);
  const clamp = (d: number) => (logRatioClamp === null ? d : Math.min(Math.max(d, -logRatioClamp), logRatioClamp));
  const logRatios = trained.map((t) => batch.logProbs[t]! - batch.oldLogProbs[t]!);
  const sequenceLogRatios = Array.from({ length: batch.offsets.length - 1 }, (_, i) => {
    const own = trained.filter((t) => t >= batch.offsets[i]! && t < batch.offsets[i + 1]!);
    return own.reduce((sum, t) => sum + clamp(batch.logProbs[t]! - batch.oldLogProbs[t]!), 0) / Math.max(own.length, 1);
  });
  const used = ratio === 'token' ? logRatios.map(clamp) : sequenceLogRatios;
  const other = kl?.against === 'old' ? batch.oldLogProbs : batch.referenceLogProbs;
  const distances = trained.map((t) => batch.logProbs[t]! - other[t]!);
  return (
    used.some((d) => bounds.some((bound) => Math.abs(d - Math.log(bound)) < reach)) ||
    (logRatioClamp !== null && logRatios.some((d) => Math.abs(Math.abs(d) - logRatioClamp) < reach)) ||
    (kl !== null && distances.some((d) => kinks(kl.estimator).some((corner) => Math.abs(d - corner) < 2 * reach)))
  );
}

/** Where an estimate has a corner or reaches the clamp [-0.4, 0.4] of the random configurations. */
function kinks(estimator: 'k1' | 'abs' | 'k2' | 'k3'): number[] {
  if (estimator === 'k1' || estimator === 'abs') return [-0.4, 0, 0.4];
  return estimator === 'k2' ? [-Math.sqrt(0.8), Math.sqrt(0.8)] : [-0.77875, 1.0501];
}

describe('policyLoss', () => {
  it('has the gradient that finite differences give', () => {
    let compared = 0;
    fc.assert(
      fc.property(differentiableConfig, anyBatch, (config, batch) => {
        fc.pre(!isNearCorner(config, batch, 1e-3));
        const { gradient } = lossOf(config, batch);
        const step = 1e-5;
        for (let t = 0; t < gradient.length; t++) {
          const moved = (by: number) => lossOf(config, { ...batch, logProbs: batch.logProbs.with(t, batch.logProbs[t]! + by) }).loss;
          const slope = (moved(step) - moved(-step)) / (2 * step);
          expect(Math.abs(gradient[t]! - slope)).toBeLessThan(1e-6 * Math.max(1, Math.abs(slope)));
          compared++;
        }
      }),
      { numRuns: 150 },
    );
    expect(compared).toBeGreaterThan(1000);
  });

  it('gives the same gradient however a step is split between sequences', () => {
    fc.assert(
      fc.property(anyConfig, anyBatch, fc.nat(), fc.nat(), (config, batch, first, second) => {
        const sequences = batch.offsets.length - 1;
        const cuts = [0, ...[first, second].map((cut) => cut % (sequences + 1)).toSorted((a, b) => a - b), sequences];
        const parts = cuts.slice(1).map((cut, i) => sliceSequences(batch, cuts[i]!, cut));
        const counts = sumCounts(parts.map(countTokens));
        expect(counts).toEqual(countTokens(batch));
        const whole = policyLoss(config, batch, counts);
        const split = parts.map((part) => policyLoss(config, part, counts));
        expect(split.flatMap((part) => [...part.gradient])).toEqual([...whole.gradient]);
        for (const value of ['loss', 'policyLoss', 'klLoss'] as const) {
          expect(split.reduce((sum, part) => sum + part[value], 0)).toBeCloseTo(whole[value], 10);
        }
        const merged = mergeLossMetrics(split.map((part) => part.metrics));
        expect(isSame(merged, { ...whole.metrics })).toBe(true);
      }),
      { numRuns: 150 },
    );
  });

  it('is not changed by whatever is at masked tokens, NaN included', () => {
    const garbage = fc.constantFrom(NaN, Infinity, -Infinity, -9999, 1e300);
    fc.assert(
      fc.property(anyConfig, anyBatch, garbage, (config, batch, value) => {
        const spoilt = { ...batch };
        for (const column of COLUMNS) spoilt[column] = batch[column].map((own, t) => (batch.mask[t] === 1 ? own : value));
        const [clean, dirty] = [lossOf(config, batch), lossOf(config, spoilt)];
        expect({ ...dirty, gradient: [...dirty.gradient] }).toEqual({ ...clean, gradient: [...clean.gradient] });
        expect([...dirty.gradient].every((g, t) => batch.mask[t] === 1 || g === 0)).toBe(true);
      }),
      { numRuns: 150 },
    );
  });

  it('is minus the masked mean advantage at ratio 1, and its gradient minus the advantage over the tokens', () => {
    fc.assert(
      fc.property(anyBatch, fc.constantFrom('token' as const, 'sequence' as const), (batch, ratio) => {
        const { loss, gradient } = lossOf({ ...grpo, ratio }, { ...batch, oldLogProbs: batch.logProbs });
        const tokens = Math.max(countTokens(batch).tokens, 1);
        const trained = batch.advantages.map((advantage, t) => advantage * batch.mask[t]!);
        const mean = trained.reduce((sum, advantage) => sum + advantage, 0) / tokens;
        expect(loss).toBeCloseTo(-mean, 12);
        trained.forEach((advantage, t) => expect(gradient[t]).toBeCloseTo(-advantage / tokens, 12));
      }),
      { numRuns: 100 },
    );
  });

  it('holds CISPO’s weight constant: its gradient is −clip(r) A, also outside the bounds', () => {
    const batch = batchOf([[Math.log(3), Math.log(0.1), 0]], 2);
    const { gradient, loss } = lossOf({ ...grpo, objective: { kind: 'cispo', ratioMin: 0.5, ratioMax: 1.5 } }, batch);
    expect([...gradient]).toEqual([(-1.5 * 2) / 3, (-0.5 * 2) / 3, -2 / 3]);
    expect(loss).toBeCloseTo((-1.5 * 2 * Math.log(3) - 0.5 * 2 * Math.log(0.1)) / 3, 12);
  });

  it('weighs the policy term with the sampler correction and leaves the KL term alone', () => {
    const kl = { estimator: 'k2', coefficient: 0.5, clamp: null, against: 'reference' } as const;
    const batch = { ...batchOf([[0.1, 0.1]], 1), samplerLogProbs: Float64Array.of(Math.log(2), -9) };
    const { policyLoss: policy, klLoss, metrics } = lossOf({ ...grpo, correction: { level: 'token', cap: 2 }, kl }, batch);
    expect(policy).toBeCloseTo((-Math.exp(0.1) * (0.5 + 2)) / 2, 12);
    expect(klLoss).toBeCloseTo(0.5 * 0.5 * 0.01, 12);
    expect(metrics).toMatchObject({ correctionMin: 0.5, correctionMax: 2, correctionTruncatedFraction: 0.5, klMean: expect.closeTo(0.005, 12) });
  });

  it('takes the KL penalty against the old policy when configured to', () => {
    const kl = { estimator: 'k1', coefficient: 1, clamp: null, against: 'old' } as const;
    const { referenceLogProbs: _, ...batch } = batchOf([[0.25]], 0);
    expect(policyLoss({ ...grpo, kl }, batch, countTokens(batch)).loss).toBe(0.25);
  });

  it('gives 0 and no metrics for a part without a trained token', () => {
    const batch = { ...batchOf([[1, 2], []], 1), mask: Uint8Array.of(0, 0) };
    const { loss, gradient, metrics } = lossOf(grpo, batch);
    expect({ loss, gradient: [...gradient] }).toEqual({ loss: 0, gradient: [0, 0] });
    expect(metrics).toMatchObject({ tokens: 0, trainedSequences: 0, meanRatio: null, maxRatio: null, clipFraction: null });
    const other = lossOf(grpo, batchOf([[0, 0.5]], 1)).metrics;
    expect(mergeLossMetrics([metrics, other])).toEqual(other);
  });

  it('shows a NaN of a trained token in loss and gradient instead of hiding it', () => {
    const { loss, gradient } = lossOf(grpo, batchOf([[NaN, 0]], 1));
    expect(loss).toBeNaN();
    expect(gradient[0]).toBeNaN();
    expect(gradient[1]).toBe(-0.5);
  });

  it('refuses a batch that lacks what the configuration needs', () => {
    const { samplerLogProbs: _, ...batch } = batchOf([[0]], 1);
    const counts = countTokens(batch);
    expect(() => policyLoss({ ...grpo, correction: { level: 'token', cap: 2 } }, batch, counts)).toThrow('samplerLogProbs has no values');
    expect(() => policyLoss(grpo, { ...batch, advantages: new Float64Array(2) }, counts)).toThrow('The mask has 1 tokens, but advantages has 2');
    expect(() => policyLoss(grpo, { ...batch, offsets: Int32Array.of(0, 2, 1) }, counts)).toThrow('offsets must rise');
  });

  it('refuses counts smaller than those of the batch: they are those of the whole step', () => {
    const batch = batchOf([[0, 0]], 1);
    expect(() => policyLoss(grpo, batch, { tokens: 1, sequences: 1, trainedSequences: 1 })).toThrow('this part alone has 2 trained tokens');
  });
});
