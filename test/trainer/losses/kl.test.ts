import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { klEstimate, klPenalizedOutcomes, klPenalizedRewards } from '../../../src/trainer/losses/kl.ts';
import { anyBatch } from './loss-batches.ts';

describe('klEstimate', () => {
  it('is 0 for equal policies; k2 and k3 are never negative and agree near 0', () => {
    for (const estimator of ['k1', 'abs', 'k2', 'k3'] as const) expect(klEstimate(estimator, 0)).toBeCloseTo(0, 15);
    fc.assert(
      fc.property(fc.double({ min: -20, max: 20, noNaN: true }), (d) => {
        expect(klEstimate('k2', d)).toBeGreaterThanOrEqual(0);
        expect(klEstimate('k3', d)).toBeGreaterThanOrEqual(0);
        const small = d / 1e6;
        expect(Math.abs(klEstimate('k3', small) - klEstimate('k2', small))).toBeLessThan(1e-14);
      }),
    );
  });

  it('estimates the divergence: the means of k1 and k3 over samples of the policy are KL(policy || reference)', () => {
    const policy = [0.5, 0.3, 0.2];
    const reference = [0.2, 0.2, 0.6];
    const kl = policy.reduce((sum, p, i) => sum + p * Math.log(p / reference[i]!), 0);
    const mean = (estimator: 'k1' | 'k3') => policy.reduce((sum, p, i) => sum + p * klEstimate(estimator, Math.log(p) - Math.log(reference[i]!)), 0);
    expect(mean('k1')).toBeCloseTo(kl, 12);
    expect(mean('k3')).toBeCloseTo(kl, 12);
  });
});

describe('klPenalizedRewards', () => {
  const batch = {
    offsets: Int32Array.of(0, 3, 3, 5),
    mask: Uint8Array.of(1, 0, 1, 0, 0),
    logProbs: Float64Array.of(-1, NaN, -2, NaN, NaN),
    referenceLogProbs: Float64Array.of(-2, 7, -1.5, 7, 7),
  };

  it('subtracts the penalty from trained tokens only and averages over the sequences that have one', () => {
    const config = { estimator: 'k1', coefficient: 0.1, clamp: null, against: 'reference' } as const;
    const { rewards, meanKl } = klPenalizedRewards(config, batch, Float64Array.of(0, 5, 1, 0, 1));
    expect([...rewards]).toEqual([-0.1, 5, 1.05, 0, 1]);
    expect(meanKl).toBe(0.25);
  });

  it('keeps an estimate within its clamp', () => {
    const config = { estimator: 'k1', coefficient: 1, clamp: [-0.25, 0.75], against: 'reference' } as const;
    expect([...klPenalizedRewards(config, batch, new Float64Array(5)).rewards]).toEqual([-0.75, 0, 0.25, 0, 0]);
  });
});

describe('klPenalizedOutcomes', () => {
  const config = { estimator: 'k3', coefficient: 0.1, clamp: [-10, 10], against: 'reference' } as const;

  it('is the sum over each sequence of the rewards per token with the outcome at its last token', () => {
    fc.assert(
      fc.property(anyBatch, (batch) => {
        const outcomes = Array.from({ length: batch.offsets.length - 1 }, (_, i) => i % 2);
        const perToken = new Float64Array(batch.mask.length);
        const isEmpty = (i: number) => batch.offsets[i] === batch.offsets[i + 1];
        outcomes.forEach((outcome, i) => {
          if (!isEmpty(i)) perToken[batch.offsets[i + 1]! - 1] = outcome;
        });
        const { rewards, meanKl } = klPenalizedRewards(config, batch, perToken);
        const penalized = klPenalizedOutcomes(config, batch, outcomes);
        expect(penalized.meanKl).toBe(meanKl);
        for (let i = 0; i < outcomes.length; i++) {
          const sum = rewards.slice(batch.offsets[i], batch.offsets[i + 1]).reduce((total, reward) => total + reward, 0);
          expect(penalized.rewards[i]).toBeCloseTo(isEmpty(i) ? outcomes[i]! : sum, 12);
        }
      }),
    );
  });

  it('keeps the reward of a sequence without a trained token, and never reads masked tokens', () => {
    const batch = {
      offsets: Int32Array.of(0, 2, 2, 3),
      mask: Uint8Array.of(1, 0, 0),
      logProbs: Float64Array.of(-1, NaN, NaN),
      referenceLogProbs: Float64Array.of(-3, NaN, NaN),
    };
    const { rewards } = klPenalizedOutcomes({ ...config, estimator: 'k1', clamp: null }, batch, [1, 0.5, 0]);
    expect([...rewards]).toEqual([0.8, 0.5, 0]);
  });

  it('refuses rewards that are not one per sequence', () => {
    const batch = { offsets: Int32Array.of(0, 1), mask: Uint8Array.of(1), logProbs: new Float64Array(1), referenceLogProbs: new Float64Array(1) };
    expect(() => klPenalizedOutcomes(config, batch, [1, 1])).toThrow('There are 1 sequences, but 2 rewards');
  });
});
