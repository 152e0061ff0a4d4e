import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addKlGradient, type KlConfig, klEstimate, klPenalties } from '../../../src/trainer/losses/kl.ts';

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

const K1: KlConfig = { estimator: 'k1', coefficient: 0.1, clamp: null, against: 'reference' };
const batch = { logProbs: Float64Array.of(-1, -2, -3), referenceLogProbs: Float64Array.of(-2, -1.5, -3) };

describe('addKlGradient', () => {
  it('adds to the gradient of its own tokens alone and returns the sum of their estimates, without the coefficient', () => {
    const gradient = Float64Array.of(1, 1, 1);
    expect(addKlGradient(K1, batch, [0, 2], 0.5, gradient)).toBe(0.5);
    expect([...gradient]).toEqual([1.5, 1.5, 1]);
  });

  it('has no gradient where an estimate is outside its clamp', () => {
    const gradient = new Float64Array(3);
    expect(addKlGradient({ ...K1, clamp: [-0.25, 0.75] }, batch, [0, 3], 1, gradient)).toBe(0.75 - 0.25 + 0);
    expect([...gradient]).toEqual([0, 0, 1]);
  });
});

describe('klPenalties', () => {
  it('is the coefficient times the estimate of each token', () => {
    expect([...klPenalties(K1, batch)]).toEqual([0.1, -0.05, 0]);
    const k2 = klPenalties({ ...K1, estimator: 'k2' }, batch);
    expect([...k2]).toEqual([expect.closeTo(0.05, 15), expect.closeTo(0.0125, 15), 0]);
  });

  it('keeps an estimate within its clamp', () => {
    expect([...klPenalties({ ...K1, coefficient: 1, clamp: [-0.25, 0.75] }, batch)]).toEqual([0.75, -0.25, 0]);
  });

  it('does not hide a NaN', () => {
    const spoilt = { ...batch, logProbs: Float64Array.of(NaN, -2, -3) };
    expect(klPenalties({ ...K1, clamp: [-1, 1] }, spoilt)[0]).toBeNaN();
  });
});
