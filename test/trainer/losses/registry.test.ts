import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { aggregationOf, LOSSES, ratioConfig } from '../../../src/trainer/losses/registry.ts';
import { countTokens } from '../../../src/trainer/losses/token-counts.ts';
import { someConfig } from '../some-config.ts';
import { batchOf } from './loss-batches.ts';

const context = (algorithm: object = {}) => ({ algorithm: someConfig({ algorithm }).algorithm, responseTokens: 640 });
const of = (algorithm: object) => ratioConfig(context(algorithm));

describe('ratioConfig', () => {
  it('is plain PPO clipping over tokens by default', () => {
    expect(of({})).toEqual({
      ratio: 'token',
      objective: { kind: 'clip', clipLow: 0.2, clipHigh: 0.2, dualClip: null },
      logRatioClamp: 20,
      correction: null,
      aggregation: { kind: 'token_mean' },
      kl: null,
      entropyCoefficient: 0,
    });
  });

  it.each([
    [
      { objective: 'clip', clip_low: 0.1, clip_high: 0.28, dual_clip: 3 },
      { kind: 'clip', clipLow: 0.1, clipHigh: 0.28, dualClip: 3 },
    ],
    [
      { objective: 'cispo', ratio_min: 0.5, ratio_max: 4 },
      { kind: 'cispo', ratioMin: 0.5, ratioMax: 4 },
    ],
    [{ objective: 'importance_sampling' }, { kind: 'importance_sampling' }],
  ])('reads the objective %o', (loss, objective) => {
    expect(of({ loss }).objective).toEqual(objective);
  });

  it.each([
    [{ aggregation: 'token_mean' }, { kind: 'token_mean' }],
    [{ aggregation: 'sum' }, { kind: 'sum' }],
    [{ aggregation: 'sequence_mean' }, { kind: 'sequence_mean', within: 'mean', countEmpty: false }],
    [{ aggregation: 'sequence_mean_token_sum' }, { kind: 'sequence_mean', within: 'sum', countEmpty: false }],
    [{ aggregation: 'constant' }, { kind: 'constant', maxTokens: 640 }],
    [
      { aggregation: 'constant', max_tokens: 99 },
      { kind: 'constant', maxTokens: 99 },
    ],
  ])('reads the aggregation %o', (loss, aggregation) => {
    expect(of({ loss }).aggregation).toEqual(aggregation);
  });

  it('reads the level of the ratio and the clamp of its logarithm', () => {
    expect(of({ loss: { ratio: 'sequence', log_ratio_clamp: null } })).toMatchObject({ ratio: 'sequence', logRatioClamp: null });
  });

  it.each([
    ['token', 'truncate', 0, 3],
    ['sequence', 'mask', 0.125, 8],
    ['geometric', 'mask', 0.99, 1.01],
  ])('corrects for the sampler per %s: %s from %d to %d', (level, mode, min, max) => {
    const correction = { level, mode, min, max };
    expect(of({ old_log_probs: 'trainer', correction }).correction).toEqual(correction);
    expect(of({ old_log_probs: 'trainer', correction: { ...correction, level: 'none' } }).correction).toBeNull();
  });

  it('reads the weight of the entropy bonus', () => {
    expect(of({ entropy_coefficient: 0.001 }).entropyCoefficient).toBe(0.001);
  });

  it.each(['k1', 'k2', 'k3'])('reads a KL penalty in the loss, %s', (estimator) => {
    expect(of({ kl: { coefficient: 0.01, estimator, clamp: 5 } }).kl).toEqual({ estimator, coefficient: 0.01, clamp: [-5, 5], against: 'reference' });
    expect(of({ kl: { coefficient: 0.01, estimator, clamp: null, against: 'old' } }).kl).toMatchObject({ clamp: null, against: 'old' });
  });

  it('leaves a KL penalty in the reward to the rewards', () => {
    expect(of({ kl: { coefficient: 0.01, placement: 'reward' } }).kl).toBeNull();
  });
});

describe('aggregationOf', () => {
  it('is the rule that the name stands for', () => {
    expect((['token_mean', 'sequence_mean', 'sequence_mean_token_sum', 'sum'] as const).map(aggregationOf)).toEqual([
      { kind: 'token_mean' },
      { kind: 'sequence_mean', within: 'mean', countEmpty: false },
      { kind: 'sequence_mean', within: 'sum', countEmpty: false },
      { kind: 'sum' },
    ]);
  });
});

describe('LOSSES', () => {
  const batch = { ...batchOf([[0.5], [-0.25, 0]], 2), roles: ['writer', 'judge'] };
  const counts = countTokens(batch.offsets, batch.roles);
  const lossOf = (id: string, args: Record<string, unknown>) => LOSSES[id]!(args, context()).evaluate(batch, counts).loss;

  it('makes the ratio loss that [algorithm] describes', () => {
    const loss = LOSSES['ratio']!({}, context({ kl: { coefficient: 0.1 }, entropy_coefficient: 0.1 }));
    expect(loss.needs).toEqual({ old: true, reference: true, sampler: false, entropy: true });
  });

  it('makes nll with its aggregation', () => {
    expect(lossOf('nll', {})).toBeCloseTo((-2 * 0.25) / 3, 12);
    expect(lossOf('nll', { aggregation: 'sum' })).toBeCloseTo(-2 * 0.25, 12);
    expect(lossOf('nll', { aggregation: 'sequence_mean' })).toBeCloseTo((-2 * (0.5 - 0.125)) / 2, 12);
  });

  it('makes rpg with its settings', () => {
    const token = (lnW: number, beta: number) => Math.exp(lnW) * (-2 + beta * lnW);
    expect(lossOf('rpg', { beta: 0.1 })).toBeCloseTo((token(0.5, 0.1) + token(-0.25, 0.1) + token(0, 0.1)) / 3, 12);
    const settings = { beta: { writer: 0.1, judge: 0 }, weight: { writer: 2, judge: 1 }, log_ratio_clamp: 0.3, aggregation: 'role_token_mean' };
    expect(lossOf('rpg', settings)).toBeCloseTo(2 * token(0.3, 0.1) + (token(-0.25, 0) + token(0, 0)) / 2, 12);
    const perSequence = (token(0.5, 0) + 2 * token(-0.125, 0)) / 3;
    expect(lossOf('rpg', { beta: 0, ratio: 'sequence', log_ratio_clamp: null })).toBeCloseTo(perSequence, 12);
  });

  it.each([
    ['ratio', { clip_low: 0.1 }, /^The loss ratio has no setting clip_low; it has none \(args\)$/],
    ['nll', { agregation: 'sum' }, /^The loss nll has no setting agregation \(did you mean aggregation\?\); its settings are aggregation/],
    ['nll', { aggregation: 'mean' }, /^The settings \(args\) of the loss nll are wrong: aggregation must be one of "token_mean", "sequence_mean"/],
    ['rpg', {}, /settings \(args\) of the loss rpg are wrong.*beta/],
    ['rpg', { beta: { writer: 'much' } }, /settings \(args\) of the loss rpg are wrong.*beta/],
    ['rpg', { beta: 1, log_ratio_clamp: 0 }, /settings \(args\) of the loss rpg are wrong.*log_ratio_clamp/],
  ])('refuses wrong settings of %s in one line: %j', (id, args, message) => {
    expect(() => LOSSES[id]!(args, context())).toThrow(ConfigError);
    expect(() => LOSSES[id]!(args, context())).toThrow(message);
  });
});
