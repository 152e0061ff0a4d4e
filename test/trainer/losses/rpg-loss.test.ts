import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSame } from '../../parity/vectors.ts';
import { mergeLossMetrics } from '../../../src/trainer/losses/loss-metrics.ts';
import { rpgLoss, type RpgLossConfig } from '../../../src/trainer/losses/rpg-loss.ts';
import { countTokens } from '../../../src/trainer/losses/token-counts.ts';
import { anyAggregation, anyBatch, batchOf, type FullBatch, splitSequences } from './loss-batches.ts';

const plain: RpgLossConfig = { ratio: 'token', logRatioClamp: null, beta: 0.1, aggregation: { kind: 'token_mean' } };
const ROLES = ['writer', 'judge'];
const anyConfig: fc.Arbitrary<RpgLossConfig> = fc.record({
  ratio: fc.constantFrom('token' as const, 'sequence' as const),
  logRatioClamp: fc.constantFrom(null, 0.5),
  beta: fc.constantFrom<RpgLossConfig['beta']>(0, 0.2, { writer: 0.5, judge: 0.01 }),
  weight: fc.constantFrom<NonNullable<RpgLossConfig['weight']>>(1, { writer: 2, judge: 0.5 }),
  aggregation: fc.oneof(anyAggregation, fc.constant({ kind: 'role_token_mean' } as const)),
});
const countsOf = (batch: FullBatch) => countTokens(batch.offsets, batch.roles);
const lossOf = (config: RpgLossConfig, batch: FullBatch) => rpgLoss(config).evaluate(batch, countsOf(batch));

describe('rpgLoss', () => {
  it('is w (−R + β ln w): at w = 1 a policy gradient of R − β', () => {
    const { loss, gradient } = lossOf(plain, batchOf([[0, Math.log(2)]], 3));
    expect(loss).toBeCloseTo((-3 + 2 * (-3 + 0.1 * Math.log(2))) / 2, 12);
    expect(gradient[0]).toBeCloseTo(-(3 - 0.1) / 2, 12);
    expect(gradient[1]).toBeCloseTo((2 * (-3 + 0.1 * (Math.log(2) + 1))) / 2, 12);
  });

  it('has the gradient that finite differences give', () => {
    let compared = 0;
    const step = 1e-5;
    fc.assert(
      fc.property(anyConfig, anyBatch, (config, batch) => {
        const atCorner = (value: number, t: number) =>
          config.logRatioClamp !== null && Math.abs(Math.abs(value - batch.oldLogProbs[t]!) - 0.5) < 1e-3;
        fc.pre(!batch.logProbs.some(atCorner));
        const moved = (t: number, by: number) => lossOf(config, { ...batch, logProbs: batch.logProbs.with(t, batch.logProbs[t]! + by) }).loss;
        for (const [t, derivative] of lossOf(config, batch).gradient.entries()) {
          const slope = (moved(t, step) - moved(t, -step)) / (2 * step);
          expect(Math.abs(derivative - slope)).toBeLessThan(1e-6 * Math.max(1, Math.abs(slope)));
          compared++;
        }
      }),
      { numRuns: 150 },
    );
    expect(compared).toBeGreaterThan(1000);
  });

  it('gives the same gradient, bit for bit, however a step is split between sequences, and metrics that merge to the whole', () => {
    fc.assert(
      fc.property(anyConfig, anyBatch, fc.nat(), fc.nat(), (config, batch, first, second) => {
        const [loss, counts] = [rpgLoss(config), countsOf(batch)];
        const whole = loss.evaluate(batch, counts);
        const split = splitSequences(batch, [first, second]).map((part) => loss.evaluate(part, counts));
        expect(split.flatMap(({ gradient }) => [...gradient])).toEqual([...whole.gradient]);
        expect(split.reduce((sum, part) => sum + part.loss, 0)).toBeCloseTo(whole.loss, 10);
        expect(isSame(mergeLossMetrics(split.map(({ metrics }) => metrics)), { ...whole.metrics })).toBe(true);
      }),
      { numRuns: 150 },
    );
  });

  it('sums over roles their weight times the mean over their own tokens', () => {
    const batch = { ...batchOf([[0, 0, 0], [0]], 1), roles: ROLES };
    const config: RpgLossConfig = { ...plain, weight: { writer: 1, judge: 3 }, aggregation: { kind: 'role_token_mean' } };
    const { loss, gradient } = lossOf(config, batch);
    expect(loss).toBeCloseTo(-1 - 3, 12);
    expect([...gradient].map((g) => g / (-1 + 0.1))).toEqual([1 / 3, 1 / 3, 1 / 3, 3].map((g) => expect.closeTo(g, 12)));
  });

  it('measures each role, and the whole without roles', () => {
    const batch = { ...batchOf([[Math.log(2)], [0]], 1), roles: ROLES };
    const value = (name: string) => lossOf(plain, batch).metrics[name]?.value;
    expect([value('ratio_mean/writer'), value('ratio_mean/judge'), value('ratio_mean')]).toEqual([2, 1, 1.5]);
    expect([value('ratio_max/writer'), value('ratio_max/judge'), value('ratio_max')]).toEqual([2, 1, 2]);
    expect(value('approx_kl_k1/writer')).toBeCloseTo(-Math.log(2), 12);
    expect(value('approx_kl/writer')).toBeCloseTo(2 - 1 - Math.log(2), 12);
    const { roles: _, ...oneRole } = batch;
    expect(Object.keys(rpgLoss(plain).evaluate(oneRole, countTokens(batch.offsets)).metrics)).toEqual([
      'rpg_loss',
      'ratio_mean',
      'ratio_min',
      'ratio_max',
      'approx_kl',
    ]);
  });

  it('gives 0 and no means for a part without a token', () => {
    expect(lossOf(plain, batchOf([[]], 1))).toEqual({ loss: 0, gradient: new Float64Array(0), metrics: { rpg_loss: { merge: 'sum', value: 0 } } });
  });

  it('shows a NaN in loss and gradient instead of hiding it in the clamp', () => {
    const { loss, gradient } = lossOf({ ...plain, logRatioClamp: 2.3 }, batchOf([[NaN, 0]], 1));
    expect([loss, gradient[0]]).toEqual([NaN, NaN]);
    expect(gradient[1]).toBeCloseTo(-0.45, 12);
  });

  it('refuses a role without a value, role_token_mean without the roles’ tokens, and a missing column', () => {
    const batch = { ...batchOf([[0]], 1), roles: ['critic'] };
    expect(() => lossOf({ ...plain, beta: { writer: 1, judge: 1 } }, batch)).toThrow('beta has no value for the role "critic"; it has writer, judge');
    const perRole = rpgLoss({ ...plain, aggregation: { kind: 'role_token_mean' } });
    expect(() => perRole.evaluate(batch, countTokens(batch.offsets))).toThrow('role_token_mean needs the tokens of each role');
    const { oldLogProbs: _, ...withoutOld } = batch;
    expect(() => rpgLoss(plain).evaluate(withoutOld, countTokens(batch.offsets))).toThrow('oldLogProbs has no values');
  });
});
