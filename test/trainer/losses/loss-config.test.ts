import { describe, expect, it } from 'vitest';
import { lossConfig } from '../../../src/trainer/losses/loss-config.ts';
import { someConfig } from '../some-config.ts';

const of = (algorithm: object) => lossConfig(someConfig({ algorithm }).algorithm, 640);

describe('lossConfig', () => {
  it('is plain PPO clipping over tokens by default', () => {
    expect(of({})).toEqual({
      ratio: 'token',
      objective: { kind: 'clip', clipLow: 0.2, clipHigh: 0.2, dualClip: null },
      logRatioClamp: 20,
      correction: null,
      aggregation: { kind: 'token_mean' },
      kl: null,
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

  it.each(['token', 'sequence'])('corrects for the sampler per %s', (level) => {
    expect(of({ old_log_probs: 'trainer', correction: { level, cap: 3 } }).correction).toEqual({ level, cap: 3 });
  });

  it.each(['k1', 'k2', 'k3'])('reads a KL penalty in the loss, %s', (estimator) => {
    expect(of({ kl: { coefficient: 0.01, estimator, clamp: 5 } }).kl).toEqual({ estimator, coefficient: 0.01, clamp: [-5, 5], against: 'reference' });
    expect(of({ kl: { coefficient: 0.01, estimator, clamp: null, against: 'old' } }).kl).toMatchObject({ clamp: null, against: 'old' });
  });

  it('leaves a KL penalty in the reward to the rewards', () => {
    expect(of({ kl: { coefficient: 0.01, placement: 'reward' } }).kl).toBeNull();
  });
});
