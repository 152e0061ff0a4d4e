import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSame } from '../../parity/vectors.ts';
import { mergeLossMetrics } from '../../../src/trainer/losses/loss-metrics.ts';
import { ratioLoss, type RatioLossConfig } from '../../../src/trainer/losses/ratio-loss.ts';
import { countTokens } from '../../../src/trainer/losses/token-counts.ts';
import { anyBatch, anyConfig, batchOf, differentiableConfig, type FullBatch, splitSequences } from './loss-batches.ts';

const grpo: RatioLossConfig = {
  ratio: 'token',
  objective: { kind: 'clip', clipLow: 0.2, clipHigh: 0.2, dualClip: null },
  logRatioClamp: null,
  correction: null,
  aggregation: { kind: 'token_mean' },
  kl: null,
};
const TIS = { level: 'token', mode: 'truncate', min: 0, max: 2 } as const;

const lossOf = (config: RatioLossConfig, batch: FullBatch) => ratioLoss(config).evaluate(batch, countTokens(batch.offsets));

/** Distance of the nearest corner of the loss, along any token's log-prob: there a finite difference is not a derivative. */
function isNearCorner({ objective, logRatioClamp, kl, ratio }: RatioLossConfig, batch: FullBatch, reach: number): boolean {
  const bounds = objective.kind === 'clip' ? [1 - objective.clipLow, 1 + objective.clipHigh, objective.dualClip ?? Infinity] : [];
  const clamp = (d: number) => (logRatioClamp === null ? d : Math.min(Math.max(d, -logRatioClamp), logRatioClamp));
  const logRatios = [...batch.logProbs].map((value, t) => value - batch.oldLogProbs[t]!);
  const sequenceLogRatios = Array.from({ length: batch.offsets.length - 1 }, (_, i) => {
    const own = logRatios.slice(batch.offsets[i], batch.offsets[i + 1]);
    return own.reduce((sum, d) => sum + clamp(d), 0) / Math.max(own.length, 1);
  });
  const used = ratio === 'token' ? logRatios.map(clamp) : sequenceLogRatios;
  const other = kl?.against === 'old' ? batch.oldLogProbs : batch.referenceLogProbs;
  const distances = [...batch.logProbs].map((value, t) => value - other[t]!);
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

/** Compares the derivative by each token with a central difference of the loss; returns how many were compared. */
function expectSlopes(derivative: Float64Array, step: number, lossAt: (t: number, by: number) => number): number {
  for (let t = 0; t < derivative.length; t++) {
    const slope = (lossAt(t, step) - lossAt(t, -step)) / (2 * step);
    expect(Math.abs(derivative[t]! - slope)).toBeLessThan(1e-6 * Math.max(1, Math.abs(slope)));
  }
  return derivative.length;
}

describe('ratioLoss', () => {
  it('has the gradient that finite differences give, by log-probs and by entropies', () => {
    let [compared, entropies] = [0, 0];
    fc.assert(
      fc.property(differentiableConfig, anyBatch, (config, batch) => {
        fc.pre(!isNearCorner(config, batch, 1e-3));
        const { gradient, dEntropy } = lossOf(config, batch);
        const moved = (name: 'logProbs' | 'entropy') => (t: number, by: number) =>
          lossOf(config, { ...batch, [name]: batch[name].with(t, batch[name][t]! + by) }).loss;
        compared += expectSlopes(gradient, 1e-5, moved('logProbs'));
        expect(dEntropy === undefined).toBe(config.entropyCoefficient === 0);
        if (dEntropy !== undefined) entropies += expectSlopes(dEntropy, 1, moved('entropy'));
      }),
      { numRuns: 150 },
    );
    expect(compared).toBeGreaterThan(1000);
    expect(entropies).toBeGreaterThan(300);
  });

  it('gives the same gradient, bit for bit, however a step is split between sequences, and metrics that merge to the whole', () => {
    fc.assert(
      fc.property(anyConfig, anyBatch, fc.nat(), fc.nat(), (config, batch, first, second) => {
        const parts = splitSequences(batch, [first, second]);
        const loss = ratioLoss(config);
        const counts = countTokens(batch.offsets);
        const whole = loss.evaluate(batch, counts);
        const split = parts.map((part) => loss.evaluate(part, counts));
        expect(split.flatMap((part) => [...part.gradient])).toEqual([...whole.gradient]);
        expect(split.flatMap((part) => [...(part.dEntropy ?? [])])).toEqual([...(whole.dEntropy ?? [])]);
        expect(split.reduce((sum, part) => sum + part.loss, 0)).toBeCloseTo(whole.loss, 10);
        const merged = mergeLossMetrics(split.map((part) => part.metrics));
        expect(Object.keys(merged).toSorted()).toEqual(Object.keys(whole.metrics).toSorted());
        expect(isSame(merged, { ...whole.metrics })).toBe(true);
      }),
      { numRuns: 150 },
    );
  });

  it('is the sum of its policy, KL and entropy terms', () => {
    fc.assert(
      fc.property(anyConfig, anyBatch, (config, batch) => {
        const { loss, metrics } = lossOf(config, batch);
        const terms = ['policy_loss', 'kl_loss', 'entropy_loss'].map((name) => metrics[name]?.value ?? 0);
        expect(loss).toBeCloseTo(terms[0]! + terms[1]! + terms[2]!, 12);
        expect(['kl_loss' in metrics, 'entropy_loss' in metrics]).toEqual([config.kl !== null, config.entropyCoefficient !== 0]);
      }),
    );
  });

  it('is minus the mean advantage at ratio 1, and its gradient minus the advantage over the tokens', () => {
    fc.assert(
      fc.property(anyBatch, fc.constantFrom('token' as const, 'sequence' as const), (batch, ratio) => {
        const { loss, gradient } = lossOf({ ...grpo, ratio }, { ...batch, oldLogProbs: batch.logProbs });
        const tokens = Math.max(batch.logProbs.length, 1);
        const mean = batch.advantages.reduce((sum, advantage) => sum + advantage, 0) / tokens;
        expect(loss).toBeCloseTo(-mean, 12);
        batch.advantages.forEach((advantage, t) => expect(gradient[t]).toBeCloseTo(-advantage / tokens, 12));
      }),
      { numRuns: 100 },
    );
  });

  it('takes an advantage for each token: a sequence ratio spreads their mean', () => {
    const batch = { ...batchOf([[0, 0]], 0), advantages: Float64Array.of(3, -1) };
    expect([...lossOf(grpo, batch).gradient]).toEqual([-1.5, 0.5]);
    expect([...lossOf({ ...grpo, ratio: 'sequence' }, batch).gradient]).toEqual([-0.5, -0.5]);
  });

  it('bounds the mean log ratio of a sequence from above alone; a sequence beyond has no gradient', () => {
    // Two sequences whose ratios count as they are, because A < 0 has no upper clip.
    const batch = batchOf(
      [
        [12, 10],
        [9, 9],
        [-12, -12],
      ],
      -1,
    );
    const bounded = lossOf({ ...grpo, ratio: 'sequence', sequenceLogRatioMax: 10 }, batch);
    const free = lossOf({ ...grpo, ratio: 'sequence' }, batch);
    expect([...bounded.gradient].slice(0, 2)).toEqual([0, 0]);
    expect([...bounded.gradient].slice(2)).toEqual([...free.gradient].slice(2));
    expect(free.loss - bounded.loss).toBeCloseTo((2 * (Math.exp(11) - Math.exp(10))) / 6, 6);
  });

  it('holds CISPO’s weight constant: its gradient is −clip(r) A, also outside the bounds', () => {
    const batch = batchOf([[Math.log(3), Math.log(0.1), 0]], 2);
    const { gradient, loss } = lossOf({ ...grpo, objective: { kind: 'cispo', ratioMin: 0.5, ratioMax: 1.5 } }, batch);
    expect([...gradient]).toEqual([(-1.5 * 2) / 3, (-0.5 * 2) / 3, -2 / 3]);
    expect(loss).toBeCloseTo((-1.5 * 2 * Math.log(3) - 0.5 * 2 * Math.log(0.1)) / 3, 12);
  });

  it('weighs the policy term with the sampler correction and leaves the KL and entropy terms alone', () => {
    const kl = { estimator: 'k2', coefficient: 0.5, clamp: null, against: 'reference' } as const;
    const batch = { ...batchOf([[0.1, 0.1]], 1), samplerLogProbs: Float64Array.of(Math.log(2), -9) };
    const { metrics } = lossOf({ ...grpo, correction: TIS, kl, entropyCoefficient: 0.01 }, batch);
    const values = Object.fromEntries(Object.entries(metrics).map(([name, { value }]) => [name, value]));
    expect(values).toMatchObject({
      policy_loss: expect.closeTo((-Math.exp(0.1) * (0.5 + 2)) / 2, 12),
      kl_loss: expect.closeTo(0.5 * 0.5 * 0.01, 12),
      entropy_loss: expect.closeTo(-0.01, 12),
      correction_mean: 1.25,
      correction_min: 0.5,
      correction_max: 2,
      correction_outside_fraction: 0.5,
      correction_mismatch: expect.closeTo((Math.log(2) - 9) / 2, 12),
      kl: expect.closeTo(0.005, 12),
    });
  });

  it('takes the KL penalty against the old policy when configured to, and needs no reference for it', () => {
    const kl = { estimator: 'k1', coefficient: 1, clamp: null, against: 'old' } as const;
    const { referenceLogProbs: _, ...batch } = batchOf([[0.25]], 0);
    const loss = ratioLoss({ ...grpo, kl });
    expect(loss.needs).toEqual({ old: true, reference: false, sampler: false, entropy: false });
    expect(loss.evaluate(batch, countTokens(batch.offsets)).loss).toBe(0.25);
  });

  it('rewards entropy like upstream: minus the coefficient times the mean, so that descending the loss raises it', () => {
    const batch = { ...batchOf([[0], [0, 0]], 0), entropy: Float64Array.of(1, 2, 6) };
    const { loss, dEntropy, metrics } = lossOf({ ...grpo, entropyCoefficient: 0.001 }, batch);
    expect(loss).toBeCloseTo(-0.003, 15);
    expect(metrics['entropy_loss']!.value).toBe(loss);
    expect([...dEntropy!]).toEqual([-0.001 / 3, -0.001 / 3, -0.001 / 3]);
  });

  it('says what it needs, and that only a plain policy term ignores advantages of 0', () => {
    const kl = { estimator: 'k3', coefficient: 0.1, clamp: null, against: 'reference' } as const;
    const of = (changes: Partial<RatioLossConfig>) => {
      const { needs, ignoresZeroAdvantages } = ratioLoss({ ...grpo, ...changes });
      return [needs.old, needs.reference, needs.sampler, needs.entropy, ignoresZeroAdvantages];
    };
    expect(of({})).toEqual([true, false, false, false, true]);
    expect(of({ kl })).toEqual([true, true, false, false, false]);
    expect(of({ correction: TIS })).toEqual([true, false, true, false, true]);
    expect(of({ entropyCoefficient: 0.1 })).toEqual([true, false, false, true, false]);
  });

  it('gives 0 and no means for a part without a token', () => {
    const { loss, gradient, metrics } = lossOf(grpo, batchOf([[], []], 1));
    expect({ loss, gradient: [...gradient], metrics }).toEqual({ loss: 0, gradient: [], metrics: { policy_loss: { merge: 'sum', value: 0 } } });
    const other = lossOf(grpo, batchOf([[0, 0.5]], 1)).metrics;
    expect(mergeLossMetrics([metrics, other])).toEqual(other);
  });

  it('shows a NaN in loss and gradient instead of hiding it', () => {
    const { loss, gradient } = lossOf(grpo, batchOf([[NaN, 0]], 1));
    expect(loss).toBeNaN();
    expect(gradient[0]).toBeNaN();
    expect(gradient[1]).toBe(-0.5);
  });

  it.each(['oldLogProbs', 'advantages', 'referenceLogProbs', 'samplerLogProbs'] as const)('shows a NaN in %s too', (column) => {
    const kl = { estimator: 'k3', coefficient: 0.1, clamp: [-10, 10], against: 'reference' } as const;
    const batch = { ...batchOf([[0, 0]], 1), [column]: Float64Array.of(NaN, column === 'advantages' ? 1 : 0) };
    const { loss, gradient } = lossOf({ ...grpo, kl, correction: TIS, logRatioClamp: 20 }, batch);
    expect([loss, gradient[0], gradient[1]]).toEqual([NaN, NaN, -0.5]);
  });

  it('refuses a batch that lacks what the configuration needs', () => {
    const { samplerLogProbs: _, entropy: __, ...batch } = batchOf([[0]], 1);
    const counts = countTokens(batch.offsets);
    expect(() => ratioLoss({ ...grpo, correction: TIS }).evaluate(batch, counts)).toThrow('samplerLogProbs has no values');
    expect(() => ratioLoss({ ...grpo, entropyCoefficient: 1 }).evaluate(batch, counts)).toThrow('entropy has no values');
    const refused = (changes: object) => () => ratioLoss(grpo).evaluate({ ...batch, ...changes }, counts);
    expect(refused({ advantages: new Float64Array(2) })).toThrow('There are 1 log-probs, but advantages has 2');
    expect(refused({ offsets: Int32Array.of(0, 2, 1) })).toThrow('offsets must rise');
  });

  it('refuses counts smaller than those of the batch: they are those of the whole step', () => {
    const batch = batchOf([[0, 0]], 1);
    expect(() => ratioLoss(grpo).evaluate(batch, { tokens: 1, sequences: 1, trainedSequences: 1 })).toThrow('this part alone has 2 tokens');
  });
});
